# frozen_string_literal: true

# The models of an ordinary Rails application.
require_relative 'unique_names'

class ApplicationRecord < ActiveRecord::Base
  self.abstract_class = true
  include UniqueNames
end

class User < ApplicationRecord
  has_many :emails
  validates :username, presence: true, uniqueness: true, available: true
end

class Email < ApplicationRecord
  belongs_to :user
  validates :email, presence: true
end

class Route < ApplicationRecord
  validates :path, presence: true
end

# A table with a partition for each region. Codes are unique in all of them, which only the database knows.
class Ticket < ApplicationRecord
  self.primary_key = 'id'
end
