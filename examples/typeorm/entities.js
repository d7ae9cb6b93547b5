// The entities of an ordinary application.
import { DataSource, EntitySchema } from 'typeorm';

export const User = new EntitySchema({
  name: 'User',
  tableName: 'users',
  columns: {
    id: { type: 'bigint', primary: true, generated: 'increment' },
    username: { type: 'varchar', length: 255, unique: true },
  },
});

export const Email = new EntitySchema({
  name: 'Email',
  tableName: 'emails',
  columns: {
    id: { type: 'bigint', primary: true, generated: 'increment' },
    address: { type: 'varchar', length: 255, unique: true, name: 'email' },
    confirmed: { type: 'boolean', default: false },
  },
  relations: { user: { type: 'many-to-one', target: 'User', nullable: false, onDelete: 'CASCADE', joinColumn: { name: 'user_id' } } },
});

export const Route = new EntitySchema({
  name: 'Route',
  tableName: 'routes',
  columns: {
    id: { type: 'bigint', primary: true, generated: 'increment' },
    namespaceId: { type: 'bigint', name: 'namespace_id' },
    path: { type: 'varchar', length: 255, unique: true },
  },
});

// Without options libpq's environment says where the database is.
export const connect = (options = {}) =>
  new DataSource({ type: 'postgres', database: process.env.PGDATABASE, entities: [User, Email, Route], ...options }).initialize();
