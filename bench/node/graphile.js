// node graphile.js migrate | work CONNECTIONS JOBS: has graphile-worker make its schema, or work off so many jobs with as many
// at once as there are connections, and prints the seconds that took, from the first job's end to the last one's.
import { run, runMigrations } from 'graphile-worker'

const pool = { host: process.env.PGHOST, port: Number(process.env.PGPORT), user: 'postgres', database: process.env.PGDATABASE }
const { default: pg } = await import('pg')

if (process.argv[2] === 'migrate') {
  const pgPool = new pg.Pool({ ...pool, max: 1 })
  await runMigrations({ pgPool })
  await pgPool.end()
} else {
  const [connections, jobs] = process.argv.slice(3).map(Number)
  // One connection beside those of the jobs: it listens.
  const pgPool = new pg.Pool({ ...pool, max: connections + 1 })
  let done = 0
  let first, finished
  const end = new Promise(resolve => { finished = resolve })
  const runner = await run({
    pgPool,
    concurrency: connections,
    noHandleSignals: true,
    pollInterval: 1000,
    logger: undefined,
    taskList: {
      async bench () {
        first ??= performance.now()
        if (++done === jobs) finished()
      }
    }
  })
  await end
  const seconds = (performance.now() - first) / 1000
  await runner.stop()
  await pgPool.end()
  console.log(`seconds ${seconds}`)
}
