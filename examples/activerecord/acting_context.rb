# frozen_string_literal: true

require_relative 'models'

# Says in claims.context who acts and why: it goes with every name that a request or a job saves to the service's audit log. For requests it is
# a middleware of Rack: `config.middleware.use ActingContext` in a Rails application.
class ActingContext
  def initialize(app)
    @app = app
  end

  def call(env)
    ActingContext.say("#{env['REQUEST_METHOD']} #{env['PATH_INFO']}, request #{env['HTTP_X_REQUEST_ID'] || '-'}")
    @app.call(env)
  end

  # At most 256 bytes and no control characters: anything else would be an error.
  def self.say(text)
    text = text.dup.force_encoding(Encoding::UTF_8).scrub('?').gsub(/[[:cntrl:]]/, '?').byteslice(0, 256).scrub('')
    query = ["SELECT set_config('claims.context', ?, false)", text]
    ApplicationRecord.connection.select_value(ApplicationRecord.sanitize_sql_array(query))
  end
end
