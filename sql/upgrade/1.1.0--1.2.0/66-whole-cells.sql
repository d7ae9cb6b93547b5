-- A transfer can move all claims of a cell.

ALTER TABLE claims.cell_transfers ALTER COLUMN subjects DROP NOT NULL;
ALTER TABLE claims.cell_transfers ADD COLUMN sealed_by text COLLATE "C";
