-- The cell north of compose.yaml: who it is, and the way to the shared database. routes.sql continues.
CREATE EXTENSION claims;
SELECT claims.register_cell(1, 'postgres', 'north');
CREATE SERVER claims_service FOREIGN DATA WRAPPER claims_service OPTIONS (host 'names', dbname 'names', connect_timeout '3');
CREATE USER MAPPING FOR postgres SERVER claims_service OPTIONS (user 'north', password 'example');
SELECT claims.automatic(1, 'claims_service');
