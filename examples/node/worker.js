// A back end: works off the requests of a queue, one transaction each, woken by NOTIFY.
//
//   npm ci
//   PGDATABASE=… node worker.js QUEUE        # stops at SIGTERM, when the request in hand is done
//
// The effect of a request and the word that it is done are committed together: a worker that dies leaves the request new,
// with nothing done. Connections are found by the PG… environment variables.
import { randomUUID } from 'node:crypto'
import pg from 'pg'

// NOTIFY is a hint, not a promise: who was not connected has missed it, and of a process that died nobody tells.
const LOOK_AT_LEAST_EVERY = 1000
const TRY_AGAIN_AFTER = 200

/** Works until `stop` says so. `handle(client, request)` has its effect through `client`, and throws where it fails. */
export async function work (queue, handle, stop) {
  while (!stop.asked) {
    const client = new pg.Client()
    client.on('error', () => {}) // The query that fails tells.
    try {
      await client.connect()
      const doorbell = listen(client, queue)
      await client.query('LISTEN claims_requests')
      // Look first, wait then: what came before LISTEN rings no bell.
      while (!stop.asked) {
        if (!await workOne(client, queue, handle)) await doorbell.wait(stop)
      }
    } catch (error) {
      console.error(`worker: ${error.message}; trying again`)
      await sleep(TRY_AGAIN_AFTER)
    } finally {
      await client.end().catch(() => {})
    }
  }
}

/** Takes what comes first, has its effect and settles it, in one transaction. `false`: there was nothing to do. */
export async function workOne (client, queue, handle) {
  const process = randomUUID()
  await client.query('BEGIN')
  const { rows } = await client.query(
    'SELECT id, entity, request_type AS type, payload FROM claims.take_requests($1, $2)', [queue, process])
  if (rows.length === 0) {
    await client.query('COMMIT')
    return false
  }
  await client.query('SAVEPOINT effect')
  let failure = null
  try {
    for (const request of rows) await handle(client, request)
  } catch (error) {
    // The effect goes, the requests stay in hand: they were taken before the savepoint.
    await client.query('ROLLBACK TO effect')
    failure = String(error.message)
  }
  await client.query('SELECT claims.settle_requests($1, $2)', [process, failure])
  await client.query('COMMIT')
  return true
}

/** Rings when the queue's name comes by; a ring while nobody waits is kept. */
function listen (client, queue) {
  let rung = false
  let wake = () => {}
  const ring = () => { rung = true; wake() }
  client.on('notification', message => { if (message.payload === queue) ring() })
  client.on('end', ring)
  return {
    async wait (stop) {
      if (!rung) {
        await new Promise(resolve => {
          wake = resolve
          stop.wake = resolve
          setTimeout(resolve, LOOK_AT_LEAST_EVERY)
        })
      }
      rung = false
    }
  }
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

if (import.meta.url === `file://${process.argv[1]}`) {
  const queue = process.argv[2] ?? 'example'
  const stop = { asked: false, wake () {} }
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => { stop.asked = true; stop.wake() })
  // What this example does with a request: it writes it down. A payload that says so fails, as work does.
  await work(queue, async (client, { id, entity, type, payload }) => {
    if (payload?.fail) throw new Error(payload.fail)
    await client.query('INSERT INTO example_effects (request, entity, type, payload) VALUES ($1, $2, $3, $4)',
      [id, entity, type, JSON.stringify(payload)])
  }, stop)
}
