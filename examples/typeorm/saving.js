// Saves with the errors of an application: a property that is not unique, names that are busy.
import { setTimeout as pause } from 'node:timers/promises';
import { QueryFailedError } from 'typeorm';

const UNIQUE_VIOLATION = '23505';
const LOCK_NOT_AVAILABLE = '55P03';
// The service cannot be reached, or did not answer in time.
const UNAVAILABLE = ['08001', '08006', '57014'];

// In the form of class-validator's errors: the property, and what it violates.
export class ValidationError extends Error {
  constructor(property, options) {
    super(`${property} is already taken`, options);
    this.property = property;
    this.constraints = { isUnique: this.message };
  }
}

// Names cannot be saved at the moment: 503 with Retry-After in HTTP.
export class Unavailable extends Error {}

// Returns work(manager), committed. A transaction that meets a name which another session is saving or giving up is repeated: that is settled
// within milliseconds.
export async function inTransaction(database, work, { attempts = 20, sleep = pause } = {}) {
  for (let attempt = 0; attempt < attempts; attempt++) {
    try {
      return await database.transaction(work);
    } catch (error) {
      if (!(error instanceof QueryFailedError)) throw error;
      const { code } = error.driverError;
      const property = code === UNIQUE_VIOLATION && violatedProperty(database, error.driverError);
      if (property) throw new ValidationError(property, { cause: error });
      if (UNAVAILABLE.includes(code)) throw new Unavailable('names cannot be saved at the moment', { cause: error });
      if (code !== LOCK_NOT_AVAILABLE) throw error;
    }
    await sleep(Math.min(10 * 2 ** attempt, 1000));
  }
  throw new Unavailable('names cannot be saved at the moment');
}

// PostgreSQL names the column in DETAIL; names that are taken in another cell have the same form.
function violatedProperty(database, { table, detail }) {
  const entity = database.entityMetadatas.find(({ tableName }) => tableName === table);
  const column = /^Key \("?(.+?)"?\)=/.exec(detail ?? '')?.[1];
  return entity?.findColumnWithDatabaseName(column)?.propertyName;
}

// Asks whether another cell has the name, for a form. The save decides: where the service does not answer in time, it is true.
export async function isAvailable(database, entity, property, value, id = null) {
  const { tableName, columns } = database.getMetadata(entity);
  const { databaseName } = columns.find(({ propertyName }) => propertyName === property);
  const [{ free }] = await database.query('SELECT claims.is_available($1, $2, $3, $4) AS free', [tableName, databaseName, value, id]);
  return free !== false;
}

// While the shared database is down the application still reads, and saves all that has no claimed name: it is degraded, not dead.
export async function health(database) {
  const services = await database.query('SELECT service, breaker, last_error FROM claims.service_state');
  return { status: services.every(({ breaker }) => breaker === 'closed') ? 'ok' : 'degraded', services };
}
