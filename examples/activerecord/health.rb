# frozen_string_literal: true

require 'json'
require_relative 'models'

# A health check for Rack. While the shared database is down the application still reads, and saves all that has no claimed name: so the
# answer is 200, and monitoring reads "degraded".
HEALTH = lambda do |_env|
  services = ApplicationRecord.connection.select_all('SELECT service, breaker, last_error FROM claims.service_state').to_a
  status = services.all? { |service| service['breaker'] == 'closed' } ? 'ok' : 'degraded'
  [200, { 'Content-Type' => 'application/json' }, [{ status: status, services: services }.to_json]]
end
