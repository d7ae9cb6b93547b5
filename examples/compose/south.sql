-- The cell south of compose.yaml: who it is, and the way to the shared database. routes.sql continues.
CREATE EXTENSION claims;
SELECT claims.register_cell(2, 'postgres', 'south');
CREATE SERVER claims_service FOREIGN DATA WRAPPER claims_service OPTIONS (host 'names', dbname 'names', connect_timeout '3');
CREATE USER MAPPING FOR postgres SERVER claims_service OPTIONS (user 'south', password 'example');
SELECT claims.automatic(2, 'claims_service');
