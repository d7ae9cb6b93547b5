-- What must always be true, and the proof that it is.

-- include sql/install/service/check.sql
