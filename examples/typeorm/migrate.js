// Makes the tables.
import { connect } from './entities.js';

const database = await connect();
await database.synchronize();
await database.destroy();
