-- check().

-- include sql/install/service/check.sql
