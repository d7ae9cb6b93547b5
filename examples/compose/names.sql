-- The shared database of compose.yaml.
CREATE EXTENSION claims;
CREATE ROLE north LOGIN PASSWORD 'example';
CREATE ROLE south LOGIN PASSWORD 'example';
SELECT claims.register_cell(1, 'north', 'north');
SELECT claims.register_cell(2, 'south', 'south');
