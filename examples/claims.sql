-- An administrator runs this once in each cell, when the application's tables are there: psql -v cell=1.
-- The foreign server "claims_service" leads to the shared database.
SELECT claims.claim_attribute('users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS');
SELECT claims.claim_attribute('emails', 'email', 'EMAILS', 'USER', 'user_id', 'RAILS_TABLE_EMAILS', condition => 'confirmed');
SELECT claims.claim_attribute('routes', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES');
SELECT claims.automatic(:cell, 'claims_service');
