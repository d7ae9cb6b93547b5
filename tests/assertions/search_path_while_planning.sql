-- An expression whose IMMUTABLE function is folded at plan time and changes search_path: plancache.c.
CREATE FUNCTION f() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  PERFORM set_config('search_path', 'pg_catalog', false);
  RETURN true;
END $$;
DO $$
DECLARE
  folded boolean;
BEGIN
  folded := f();
END $$;
