# frozen_string_literal: true

# An ordinary Rails application's models. They know nothing of claims, nor of other cells.
require 'active_record'

class User < ActiveRecord::Base
  has_many :emails
  validates :username, presence: true, uniqueness: true
end

class Email < ActiveRecord::Base
  belongs_to :user
  validates :email, presence: true
end

class Route < ActiveRecord::Base
  validates :path, presence: true
end
