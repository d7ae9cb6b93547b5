-- Which types can be unique across tables, and that their values are compared as PostgreSQL compares them.
SET client_min_messages = error;
SET lock_timeout = '10s';
SELECT t.clean();
CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
-- t.probe() adds a unique for a column of a type, saves a value in one table and another in the other one, and returns what happens
CREATE FUNCTION t.probe(type text, one text, other text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE a (v %s); CREATE TABLE b (v %1$s)', type);
    BEGIN
        EXECUTE 'SELECT claims.add_unique(''probe'', ''{a, b}'', ''v'')';
    EXCEPTION WHEN OTHERS THEN
        DROP TABLE a, b;
        RETURN SQLSTATE || ' ' || SQLERRM;
    END;
    EXECUTE format('INSERT INTO a VALUES (%L)', one);
    BEGIN
        EXECUTE format('INSERT INTO b VALUES (%L)', other);
        SET CONSTRAINTS ALL IMMEDIATE;
        SET CONSTRAINTS ALL DEFERRED;
        one := 'differ';
    EXCEPTION WHEN unique_violation THEN
        one := 'are equal';
    END;
    PERFORM claims.drop_unique('probe', 'test');
    DROP TABLE a, b;
    RETURN one;
END $$;
CREATE FUNCTION t.equal(type text, one text, other text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    same boolean;
BEGIN
    EXECUTE format('SELECT %L::%s = %L::%s', one, type, other, type) INTO same;
    RETURN CASE WHEN same THEN 'are equal' ELSE 'differ' END;
END $$;

-- each says the same as the type's own operator
SELECT type, t.probe(type, one, other), t.probe(type, one, other) = t.equal(type, one, other) AS as_it_does
  FROM (VALUES ('text', 'a', 'A'), ('text', 'a', 'a'), ('varchar(9)', 'a', 'a '), ('char(5)', 'a', 'a  '), ('public.citext', 'Ä', 'ä'),
               ('public.citext', 'a', 'b'), ('uuid', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'a0eebc999c0b4ef8bb6d6bb9bd380a11'),
               ('bigint', '+7', '7'), ('small', '7', '8'), ('bytea', '\x41', 'A'), ('date', '2024-01-02', 'Jan 2 2024'),
               ('timestamptz', '2024-01-02 12:00+02', '2024-01-02 10:00+00'), ('timestamp', '2024-01-02 12:00', '2024-01-02 12:00:00.000001'),
               ('boolean', 'yes', 'true'), ('inet', '10.0.0.1', '10.0.0.1/32'), ('bit varying', '01', '1'),
               ('macaddr', '08:00:2b:01:02:03', '08002b010203')) v (type, one, other);
-- settings of the session change nothing
SET DateStyle = 'German'; SET TimeZone = 'Asia/Tokyo'; SET bytea_output = 'escape';
SELECT t.probe('date', '02.01.2024', '2.1.2024'), t.probe('bytea', '\x41', 'A'), t.probe('timestamptz', '02.01.2024 12:00+02', '02.01.2024 10:00+00');
RESET DateStyle; RESET TimeZone; RESET bytea_output;
-- values that can be equal where their texts differ, or texts that can change
SELECT type, t.probe(type, '1', '1')
  FROM unnest('{mood,numeric,real,float8,money,jsonb,json,xml,interval,timetz,int[],int4range,point,tsvector,text COLLATE blind}'::text[]) type;
