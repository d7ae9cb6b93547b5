# frozen_string_literal: true

# Tests of a partitioned model in a single database, which calls no service. Codes are claimed at COMMIT: no transaction around each test.
require_relative 'models'
require 'minitest/autorun'
require 'active_support/test_case'

ActiveRecord::Base.establish_connection(adapter: 'postgresql', min_messages: 'error', database: ENV.fetch('ALONE_PGDATABASE'))
ActiveRecord::Base.logger = nil

class PartitionsTest < ActiveSupport::TestCase
  setup { Ticket.delete_all }

  def refused(ticket)
    refute ticket.save
    assert_equal ['Code has already been taken'], ticket.errors.full_messages
  end

  test 'a code of another partition is an error of the attribute' do
    Ticket.create!(region: 'north', code: 'A-1')
    refused Ticket.new(region: 'south', code: 'A-1')
    error = assert_raises(ActiveRecord::RecordNotUnique) do
      Ticket.transaction { %w[A-2 A-1].each { |code| Ticket.create!(region: 'south', code: code) } }
    end
    assert_equal 'tickets_code', error.cause.result.error_field(PG::PG_DIAG_CONSTRAINT_NAME)
    assert_equal [%w[north A-1]], Ticket.pluck(:region, :code)
    Ticket.create!(region: 'south', code: 'A-2')
  end

  test 'a row moves to another partition and keeps its code' do
    ticket = Ticket.create!(region: 'north', code: 'B-1')
    ticket.update!(region: 'south')
    refused Ticket.new(region: 'north', code: 'B-1')
    ticket.destroy!
    Ticket.create!(region: 'north', code: 'B-1')
  end

  test 'two rows swap their codes in a transaction' do
    one = Ticket.create!(region: 'north', code: 'C-1')
    two = Ticket.create!(region: 'south', code: 'C-2')
    Ticket.transaction do
      one.update_columns(code: 'C-2')
      two.update_columns(code: 'C-1')
    end
    assert_equal({ 'north' => 'C-2', 'south' => 'C-1' }, Ticket.pluck(:region, :code).to_h)
  end

  test 'the codes of a partition that is dropped are free' do
    Ticket.connection.execute("CREATE TABLE tickets_west PARTITION OF tickets FOR VALUES IN ('west')")
    Ticket.create!(region: 'west', code: 'D-1')
    refused Ticket.new(region: 'north', code: 'D-1')
    Ticket.connection.execute('DROP TABLE tickets_west')
    Ticket.create!(region: 'north', code: 'D-1')
  end
end
