-- Automatic mode in the shared database itself.

ALTER TABLE claims.automatic_service ALTER service DROP NOT NULL;

-- include sql/install/cell/automatic_here.sql
