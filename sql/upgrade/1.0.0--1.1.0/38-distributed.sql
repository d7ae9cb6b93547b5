-- Where the tables are spread over the nodes of a Citus cluster.

ALTER TABLE claims.cells ADD COLUMN role_name name;
-- include sql/install/service/check_distributed.sql
