# frozen_string_literal: true

# Tests of the application, in one cell. Names of the other cell are made by its own copy of the application: Elsewhere. Saves are committed
# here, because names are claimed at COMMIT: no transaction around each test, but names of its own for each.
require_relative 'jobs'
require_relative 'health'
require 'minitest/autorun'
require 'active_support/test_case'

# min_messages: after a COMMIT that failed ActiveRecord sends a ROLLBACK, about which PostgreSQL would warn. Where the database is, libpq's
# environment says.
SETTINGS = { adapter: 'postgresql', min_messages: 'error' }.freeze
ActiveRecord::Base.establish_connection(SETTINGS)
ActiveRecord::Base.logger = ActiveJob::Base.logger = nil
Minitest.backtrace_filter = Struct.new(:own) { def filter(lines) = lines.grep(own) }.new(%r{/examples/})

module Elsewhere
  class Record < ActiveRecord::Base
    self.abstract_class = true
    establish_connection(SETTINGS.merge(host: ENV.fetch('OTHER_PGHOST'), port: ENV.fetch('OTHER_PGPORT')))
  end

  class User < Record
    self.table_name = 'users'
  end

  class Email < Record
    self.table_name = 'emails'
  end

  class Route < Record
    self.table_name = 'routes'
  end
end

class ApplicationTest < ActiveSupport::TestCase
  include ActiveJob::TestHelper

  # A save elsewhere returns before the service knows that its transaction has committed. Until then its name is leased, and not taken.
  def once_settled
    tries ||= 0
    yield
  rescue ActiveRecord::LockWaitTimeout
    sleep 0.05
    retry if (tries += 1) < 400
    raise
  end

  test 'a free name is saved' do
    user = User.create!(username: 'ada')
    user.emails.create!(email: 'ada@example.org')
    assert_predicate user, :persisted?
    assert_equal 1, user.emails.count
  end

  test 'the request is the context of its names' do
    application = ActingContext.new(->(_env) { [200, {}, [User.create!(username: 'context.of.a.request').username]] })
    status, = application.call('REQUEST_METHOD' => 'POST', 'PATH_INFO' => '/users', 'HTTP_X_REQUEST_ID' => "7f3\u0001#{'é' * 300}")
    assert_equal 200, status
    said = User.connection.select_value('SHOW claims.context')
    assert_equal 'POST /users, request 7f3?é', said[0, 26]
    assert_operator said.bytesize, :<=, 256
  end

  test 'a name of another cell is an error of the attribute' do
    Elsewhere::User.create!(username: 'grace')
    user = User.new(username: 'grace')
    assert_equal false, once_settled { user.save(validate: false) }
    assert_equal ['Username has already been taken'], user.errors.full_messages
    assert_equal [{ error: :taken, value: 'grace' }], user.errors.details[:username]
    assert_predicate user, :new_record?
    error = assert_raises(ActiveRecord::RecordInvalid) { user.save!(validate: false) }
    assert_equal user, error.record
    refute User.exists?(username: 'grace')
    # The connection, and the record, go on.
    user.username = 'grace.hopper'
    assert user.save
  end

  test 'a name of this cell that the validation has not seen is the same error' do
    User.create!(username: 'edsger')
    user = User.new(username: 'edsger')
    refute user.save(validate: false)
    assert_equal [{ error: :taken, value: 'edsger' }], user.errors.details[:username]
  end

  test 'the form knows before the save' do
    Elsewhere::User.create!(username: 'barbara')
    user = User.new(username: 'barbara')
    once_settled { refute_predicate user, :valid? }
    assert_equal [{ error: :taken, value: 'barbara' }], user.errors.details[:username]
    assert_predicate User.new(username: 'barbara.liskov'), :valid?
    # A user's own name.
    own = User.create!(username: 'liskov')
    own.username_will_change!
    assert_predicate own, :valid?
  end

  test 'an address is claimed once it is confirmed' do
    Elsewhere::Email.create!(user_id: Elsewhere::User.create!(username: 'alan').id, email: 'alan@example.org', confirmed: true)
    email = User.create!(username: 'alan.turing').emails.create!(email: 'alan@example.org')
    email.confirmed = true
    assert_equal false, once_settled { email.save }
    assert_equal [:email], email.errors.attribute_names
    refute email.reload.confirmed
  end

  test 'a transaction is saved as a whole or not at all' do
    Elsewhere::Route.create!(path: 'engines', namespace_id: 1)
    error = assert_raises(ActiveRecord::RecordNotUnique) do
      once_settled do
        User.transaction do
          User.create!(username: 'charles')
          Route.create!(path: 'engines/analytical', namespace_id: 2).update!(path: 'engines')
        end
      end
    end
    assert_includes error.message, 'Key (path)=(engines) already exists.'
    refute User.exists?(username: 'charles')
    refute Route.exists?(namespace_id: 2)
  end

  test 'a name that is given up is free elsewhere' do
    user = User.create!(username: 'katherine')
    user.update!(username: 'katherine.johnson')
    once_settled { Elsewhere::User.create!(username: 'katherine') }
    User.transaction do
      User.create!(username: 'nobody')
      raise ActiveRecord::Rollback
    end
    once_settled { Elsewhere::User.create!(username: 'nobody') }
    user.destroy!
    once_settled { Elsewhere::User.create!(username: 'katherine.johnson') }
    assert_equal 2, Elsewhere::User.where("username LIKE 'katherine%'").count
  end

  test 'bulk statements are claimed, too' do
    Route.insert_all!([{ path: 'a', namespace_id: 3 }, { path: 'b', namespace_id: 3 }])
    assert_raises(ActiveRecord::RecordNotUnique) { once_settled { Elsewhere::Route.insert_all!([{ path: 'b', namespace_id: 4 }, { path: 'c', namespace_id: 4 }]) } }
    assert_equal 0, Elsewhere::Route.where(namespace_id: 4).count
  end

  test 'a job repeats what meets a name that is being saved elsewhere' do
    route = Route.create!(path: 'kernel', namespace_id: 5)
    Elsewhere::Route.connection.begin_db_transaction
    Elsewhere::Route.insert_all!([{ path: 'kernel/stable', namespace_id: 6 }])
    Elsewhere::Route.connection.execute('SET CONSTRAINTS ALL IMMEDIATE')        # the name is leased now, and not at COMMIT
    assert_raises(ActiveRecord::LockWaitTimeout) { route.update!(path: 'kernel/stable') }

    assert_enqueued_jobs(1, only: MoveRouteJob) { MoveRouteJob.perform_now(route.id, 'kernel/stable') }
    assert_equal 'kernel', route.reload.path
    Elsewhere::Route.connection.rollback_db_transaction
    400.times { enqueued_jobs.any? ? perform_enqueued_jobs : break }
    assert_equal 'kernel/stable', route.reload.path
    assert_match(/\Ajob MoveRouteJob \h/, Route.connection.select_value('SHOW claims.context'))
  end

  test 'the health check shows that the service is down' do
    User.create!(username: 'margaret')
    assert_equal 'ok', health['status']
    system(ENV.fetch('STOP_SERVICE'), exception: true)
    begin
      # claims.breaker_failures
      5.times { |n| assert_raises(ActiveRecord::StatementInvalid) { User.new(username: "margaret.#{n}").save(validate: false) } }
      assert_equal %w[degraded open], [health['status'], health.dig('services', 0, 'breaker')]
      assert User.exists?(username: 'margaret')
    ensure
      system(ENV.fetch('START_SERVICE'), exception: true)
    end
    saved_again
    assert_equal 'ok', health['status']
  end

  def health
    status, _headers, body = HEALTH.call({})
    assert_equal 200, status
    JSON.parse(body.join)
  end

  def saved_again
    tries ||= 0
    User.create!(username: 'margaret.hamilton')
  rescue ActiveRecord::StatementInvalid
    sleep 0.1
    retry if (tries += 1) < 600
    raise
  end
end
