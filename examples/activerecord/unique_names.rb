# frozen_string_literal: true

require 'active_record'

# Shows a violation of uniqueness that only the database has seen as an error of the attribute, as if a validation had found it. It reads
# PostgreSQL's own form of the error: names that are taken in another cell have it, too.
module UniqueNames
  def save(**)
    super
  rescue ActiveRecord::RecordNotUnique => e
    raise unless add_error(e)

    false
  end

  def save!(**)
    super
  rescue ActiveRecord::RecordNotUnique => e
    raise unless add_error(e)

    raise ActiveRecord::RecordInvalid, self
  end

  private

  # The database may name another record's attribute: several are saved in one transaction.
  def add_error(error)
    result = error.cause.result
    attribute = result.error_field(PG::PG_DIAG_MESSAGE_DETAIL).to_s[/\AKey \("?(.+?)"?\)=/, 1]
    return unless result.error_field(PG::PG_DIAG_TABLE_NAME) == self.class.table_name && has_attribute?(attribute.to_s)

    errors.add(attribute, :taken, value: self[attribute])
  end
end

# validates :username, available: true
# Asks before the save whether another cell has the name, for forms that show all their errors at once. The save decides: if the service does
# not answer in time, nothing is said here.
class AvailableValidator < ActiveModel::EachValidator
  def validate_each(record, attribute, value)
    return if value.blank? || !record.will_save_change_to_attribute?(attribute)

    query = ['SELECT claims.is_available(?, ?, ?, ?)', record.class.table_name, attribute.to_s, value, record.id&.to_s]
    free = record.class.connection.select_value(record.class.sanitize_sql_array(query))
    record.errors.add(attribute, :taken, value: value) if free == false
  end
end
