-- An administrator runs this once in a single database, when the application's tables are there. From then on a code stands once in all partitions.
SELECT claims.add_unique('tickets_code', '{tickets}', 'code');
