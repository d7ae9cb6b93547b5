# frozen_string_literal: true

require 'active_job'
require_relative 'acting_context'

class ApplicationJob < ActiveJob::Base
  # A name that another session is saving or giving up: it is settled within milliseconds.
  retry_on ActiveRecord::LockWaitTimeout, wait: 1, attempts: 100
  before_perform { |job| ActingContext.say("job #{job.class.name} #{job.job_id}") }
end

class MoveRouteJob < ApplicationJob
  def perform(id, path)
    Route.find(id).update!(path: path)
  end
end
