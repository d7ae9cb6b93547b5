-- Reading from standbys.

INSERT INTO claims.audiences (function_name, audience) VALUES ('read_after', 'reader');
