# frozen_string_literal: true

# The same application in two cells. CELL_1 and CELL_2 say where their databases are, in automatic mode, for the role of
# the application ('host=… port=… database=… username=…'). Ends with an error when something is not as it says.
require_relative 'models'

# min_messages: after a COMMIT that failed ActiveRecord sends a ROLLBACK, about which Postgres would warn.
def in_cell(number)
  settings = ENV.fetch("CELL_#{number}").split.to_h { |setting| setting.split('=', 2) }
  ActiveRecord::Base.establish_connection(settings.merge('adapter' => 'postgresql', 'min_messages' => 'error'))
  yield
ensure
  ActiveRecord::Base.remove_connection
end

def check(what, is_so)
  abort "NOT SO: #{what}" unless is_so
  puts "ok: #{what}"
end

# What a block raises, if anything.
def raised
  yield
  nil
rescue ActiveRecord::ActiveRecordError => e
  e
end

# The same, but a name that is being saved this moment (LockWaitTimeout) is tried again: the session that saved it sends the
# commit of its lease after its own COMMIT, and does not wait for the answer.
def once_settled(&block)
  error = nil
  100.times do
    error = raised(&block)
    break unless error.instance_of?(ActiveRecord::LockWaitTimeout)

    sleep 0.05
  end
  error
end

in_cell(1) do
  user = User.create!(username: 'ada')
  user.emails.create!(email: 'ada@example.org')
  Route.create!(path: 'engines', namespace_id: 1)
  check 'cell 1 saves as ever', User.count == 1 && Email.count == 1 && Route.count == 1
end

in_cell(2) do
  error = once_settled { User.create!(username: 'ada') }
  check 'a name that is taken elsewhere is RecordNotUnique at once', error.instance_of?(ActiveRecord::RecordNotUnique)
  check 'and is not saved', User.count.zero?
  check 'which says by whom', error.message.include?('"holder_cell_id":1')
  check 'the connection goes on', User.create!(username: 'grace').persisted?
  error = once_settled { Route.create!(path: 'engines', namespace_id: 7) }
  check 'a route that is taken elsewhere is RecordNotUnique', error.instance_of?(ActiveRecord::RecordNotUnique)
  error = raised do
    User.transaction do
      User.create!(username: 'linus')
      Route.create!(path: 'kernel', namespace_id: 2)
      Route.create!(path: 'engines/analytical', namespace_id: 2).update!(path: 'engines')
    end
  end
  check 'a transaction is saved as a whole or not at all',
        error.instance_of?(ActiveRecord::RecordNotUnique) && !User.exists?(username: 'linus') && Route.count.zero?
end

in_cell(1) do
  # E-mail addresses are claimed once they are confirmed.
  Email.find_by!(email: 'ada@example.org').update!(confirmed: true)
  user = User.find_by!(username: 'ada')
  user.update!(username: 'lovelace')
  user.update!(username: 'ada.lovelace')
  check 'a name can be changed again at once', user.reload.username == 'ada.lovelace'
  User.transaction(requires_new: true) do
    User.create!(username: 'nobody')
    raise ActiveRecord::Rollback
  end
  local = raised { User.new(username: 'ada.lovelace').save!(validate: false) }
  check 'a name that is taken here is RecordNotUnique as ever', local.instance_of?(ActiveRecord::RecordNotUnique)
end

in_cell(2) do
  check 'what cell 1 gave back is free', once_settled { User.create!(username: 'ada') }.nil?
  check 'what it rolled back is free', once_settled { User.create!(username: 'nobody') }.nil?
  unconfirmed = Email.create!(user: User.first, email: 'ada@example.org')
  check 'an address that is not confirmed is not claimed', unconfirmed.persisted?
  error = raised { unconfirmed.update!(confirmed: true) }
  check 'a confirmed one is', error.instance_of?(ActiveRecord::RecordNotUnique)
  User.find_by!(username: 'nobody').destroy!
  check 'bulk statements are captured, too', Route.insert_all!([{ path: 'a', namespace_id: 1 }, { path: 'b', namespace_id: 1 }]).length == 2
  Route.where(namespace_id: 1).delete_all
end
