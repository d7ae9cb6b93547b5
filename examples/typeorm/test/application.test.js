// Tests of the application, in one cell. Names of the other cell are made in its database, `elsewhere`. Names are claimed at COMMIT, so no
// transaction around each test; each has names of its own.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { connect, Email, Route, User } from '../entities.js';
import { health, inTransaction, isAvailable, Unavailable, ValidationError } from '../saving.js';

let here;
let elsewhere;
before(async () => {
  here = await connect();
  elsewhere = await connect({ host: process.env.OTHER_PGHOST, port: Number(process.env.OTHER_PGPORT) });
});
after(async () => {
  await here.destroy();
  await elsewhere.destroy();
});

const save = (database, entity, values, options) => inTransaction(database, (manager) => manager.save(entity, values), options);
const count = (database, entity, where) => database.getRepository(entity).countBy(where);
const isTaken = (property) => (error) => {
  assert.ok(error instanceof ValidationError, error);
  assert.equal(error.property, property);
  assert.deepEqual(error.constraints, { isUnique: `${property} is already taken` });
  return true;
};

test('a free name is saved', async () => {
  const user = await save(here, User, { username: 'ada' });
  await save(here, Email, { address: 'ada@example.org', user });
  assert.equal(await count(here, User, { username: 'ada' }), 1);
});

test('a name of another cell is an error of the property', async () => {
  await save(elsewhere, User, { username: 'grace' });
  await assert.rejects(save(here, User, { username: 'grace' }), (error) => {
    const { table, column, constraint } = error.cause.driverError;
    assert.deepEqual([table, column, constraint], ['users', 'username', 'users_username_claim']);
    return isTaken('username')(error);
  });
  assert.equal(await count(here, User, { username: 'grace' }), 0);
  await save(here, User, { username: 'grace.hopper' });
});

test('a name of this cell is the same error', async () => {
  await save(here, User, { username: 'edsger' });
  await assert.rejects(save(here, User, { username: 'edsger' }), isTaken('username'));
});

test('the form knows before the save', async () => {
  await save(elsewhere, User, { username: 'barbara' });
  const { id } = await save(here, User, { username: 'liskov' });
  assert.equal(await isAvailable(here, User, 'username', 'barbara'), false);
  assert.equal(await isAvailable(here, User, 'username', 'barbara.liskov'), true);
  assert.equal(await isAvailable(here, User, 'username', 'liskov'), false);
  assert.equal(await isAvailable(here, User, 'username', 'liskov', id), true);
});

test('an address is claimed once it is confirmed', async () => {
  const other = await save(elsewhere, User, { username: 'alan' });
  await save(elsewhere, Email, { address: 'alan@example.org', user: other, confirmed: true });
  const user = await save(here, User, { username: 'alan.turing' });
  const email = await save(here, Email, { address: 'alan@example.org', user });
  // The property has another name than its column.
  await assert.rejects(save(here, Email, { id: email.id, confirmed: true }), isTaken('address'));
  assert.equal(await count(here, Email, { address: 'alan@example.org', confirmed: true }), 0);
});

test('a transaction is saved as a whole or not at all', async () => {
  await save(elsewhere, Route, { path: 'engines', namespaceId: 1 });
  const both = inTransaction(here, async (manager) => {
    await manager.save(User, { username: 'charles' });
    await manager.save(Route, { path: 'engines', namespaceId: 2 });
  });
  await assert.rejects(both, isTaken('path'));
  assert.equal(await count(here, User, { username: 'charles' }), 0);
  assert.equal(await count(here, Route, { namespaceId: 2 }), 0);
});

test('a name that is given up is free elsewhere', async () => {
  const user = await save(here, User, { username: 'katherine' });
  await save(here, User, { id: user.id, username: 'katherine.johnson' });
  await save(elsewhere, User, { username: 'katherine' });
  await inTransaction(here, (manager) => manager.delete(User, { id: user.id }));
  await save(elsewhere, User, { username: 'katherine.johnson' });
});

test('bulk statements are claimed, too', async () => {
  const add = (...paths) => (manager) => manager.insert(Route, paths.map((path) => ({ path, namespaceId: 4 })));
  await inTransaction(here, add('a', 'b'));
  await assert.rejects(inTransaction(elsewhere, add('b', 'c')), isTaken('path'));
  assert.equal(await count(elsewhere, Route, { namespaceId: 4 }), 0);
});

test('a transaction is repeated that meets a name being saved elsewhere', async () => {
  const other = elsewhere.createQueryRunner();
  try {
    await other.startTransaction();
    await other.manager.insert(Route, { path: 'kernel', namespaceId: 6 });
    await other.query('SET CONSTRAINTS ALL IMMEDIATE'); // the name is leased now, and not at COMMIT
    const wanted = { path: 'kernel', namespaceId: 5 };
    await assert.rejects(save(here, Route, wanted, { attempts: 2 }), Unavailable);

    let pauses = 0;
    const sleep = async (milliseconds) => {
      if (pauses === 0) await other.rollbackTransaction();
      pauses += 1;
      await pause(milliseconds);
    };
    await save(here, Route, wanted, { sleep });
    assert.ok(pauses >= 1);
  } finally {
    await other.release();
  }
  assert.equal(await count(here, Route, { path: 'kernel' }), 1);
});

test('the health check shows that the service is down', async () => {
  await save(here, User, { username: 'margaret' });
  assert.equal((await health(here)).status, 'ok');
  execFileSync(process.env.STOP_SERVICE);
  try {
    // claims.breaker_failures
    for (let number = 0; number < 5; number++) await assert.rejects(save(here, User, { username: `margaret.${number}` }), Unavailable);
    const { status, services } = await health(here);
    assert.deepEqual([status, services[0].breaker], ['degraded', 'open']);
    assert.equal(await count(here, User, { username: 'margaret' }), 1);
  } finally {
    execFileSync(process.env.START_SERVICE);
  }
  const end = Date.now() + 60_000;
  for (;;) {
    try {
      await save(here, User, { username: 'margaret.hamilton' });
      break;
    } catch (error) {
      if (!(error instanceof Unavailable) || Date.now() > end) throw error;
      await pause(100);
    }
  }
  assert.equal((await health(here)).status, 'ok');
});
