# A webhook receiver: each Idempotency-Key is processed once, and every delivery gets the same
# answer.
#
# Needs pg and WEBrick; ../schema.sql has the table. In Rails the transaction is
# ActiveRecord::Base.transaction, and the SQLSTATE error.cause.result.error_field(...) as below.
#
#   Debian: apt-get install ruby ruby-pg ruby-webrick
#   Run:    PGHOST=... PGDATABASE=... PGUSER=shop PORT=8080 ruby webhook.rb
require 'json'
require 'pg'
require 'webrick'

ATTEMPTS = 6

# Another attempt may succeed: deadlock, serialization failure, and what exactonce says of keys that
# are in progress or lost, and of DynamoDB when it does not answer.
PASSING = %w[40001 40P01 ID001 ID002 ID006].freeze

# A pool takes the address from libpq's variables: PGHOST, PGDATABASE, PGUSER, ...
IDLE = Queue.new

# A connection that was lost is closed.
def with_connection
  db = begin
    IDLE.pop(true)
  rescue ThreadError
    PG.connect
  end
  yield db
ensure
  if db
    sound = !db.finished? && db.status == PG::CONNECTION_OK && db.transaction_status == PG::PQTRANS_IDLE
    sound ? IDLE.push(db) : db.finish
  end
end

# The work. Whatever it does in this transaction is done once.
def take_payment(db, event)
  row = db.exec_params('INSERT INTO payments (invoice, amount) VALUES ($1, $2) RETURNING receipt',
                       [event['invoice'], event['amount']])
  JSON.generate(receipt: row[0]['receipt'].to_i)
end

# One attempt, which is one transaction: claim, work, completion.
def process(key, event)
  with_connection do |db|
    claim = db.transaction do                   # COMMIT at its end, ROLLBACK after an error
      claim = db.exec_params(<<~SQL, [key, JSON.generate(event)])[0]
        SELECT outcome, http_status, retry_after, result
        FROM idem_acquire($1, payload => $2, wait => '5s')
      SQL
      if claim['outcome'] == 'acquired'
        claim['result'] = take_payment(db, event)
        db.exec_params('SELECT idem_complete($1, $2)', [key, claim['result']])
      end
      claim
    end
    claim                                       # it has committed: only now may others be told
  end
end

def sqlstate(error)
  error.result&.error_field(PG::Result::PG_DIAG_SQLSTATE) if error.respond_to?(:result)
end

# May the next attempt succeed? No SQLSTATE: the connection was lost.
def may_pass?(error)
  state = sqlstate(error)
  state.nil? || PASSING.include?(state) || state.start_with?('08', '57')
end

# If the connection was lost in COMMIT, the next claim finds out whether it had committed.
def process_with_retries(key, event)
  attempt = 1
  begin
    process(key, event)
  rescue PG::Error => e
    raise if attempt == ATTEMPTS || !may_pass?(e)

    warn "attempt #{attempt} for #{key}: #{e.message}"
    sleep [2, 0.1 * 2**attempt].min * rand(0.5..1)
    attempt += 1
    retry
  end
end

def answer(response, status, body, headers = {})
  response.status = status
  response['Content-Type'] = 'application/json'
  headers.each { |name, value| response[name] = value }
  response.body = body.is_a?(String) ? body : JSON.generate(body)
end

def webhook(request, response)
  key = request['Idempotency-Key']
  event = begin
    JSON.parse(request.body.to_s)
  rescue JSON::ParserError
    nil
  end
  unless key && event.is_a?(Hash) && event.key?('invoice') && event.key?('amount')
    return answer(response, 400, { error: 'a header Idempotency-Key, and an invoice and an amount are needed' })
  end

  # With more than one sender, the sender is a part of the key.
  claim = process_with_retries("webhook/#{key}", event)
  headers = {}
  headers['Idempotency-Replayed'] = 'true' if claim['outcome'] == 'completed'
  headers['Retry-After'] = claim['retry_after'] if claim['retry_after']
  answer(response, claim['http_status'].to_i, claim['result'] || { error: claim['outcome'] }, headers)
rescue PG::Error => e
  state = sqlstate(e).to_s
  if state == 'ID003'
    answer(response, 422, { error: 'this key was used for another event' })
  elsif state.start_with?('22', '23')
    answer(response, 422, { error: 'this event cannot be processed' })
  elsif may_pass?(e)
    answer(response, 503, { error: 'try again' }, { 'Retry-After' => '5' })
  else
    warn "#{key}: #{e.message}"
    answer(response, 500, { error: 'for people to look at' })
  end
end

server = WEBrick::HTTPServer.new(BindAddress: '127.0.0.1', Port: Integer(ENV.fetch('PORT', '8080')), AccessLog: [])
server.mount_proc('/webhook') do |request, response|
  request.request_method == 'POST' ? webhook(request, response) : answer(response, 405, { error: 'POST it' })
end
%w[INT TERM].each { |signal| trap(signal) { server.shutdown } }
server.start
