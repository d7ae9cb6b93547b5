-- The cost of begin and commit inside the server, without network, parsing of statements, or disk flushes: {count} leases of
-- {size} claims each are made and committed, first creating and then, in another transaction, destroying. (Within one transaction
-- PostgreSQL must keep every version of its rows, so the third one would rarely have room on the page of the first two. Clients
-- destroy what an earlier transaction has created.) {schema} is the side that is measured.
CREATE SCHEMA IF NOT EXISTS bench;
GRANT USAGE ON SCHEMA bench TO PUBLIC;

-- The names of one batch lie side by side, the batches anywhere: like the projects of a group. Odd numbers, so that they
-- never meet the loaded names, which are multiples of a million.
CREATE OR REPLACE FUNCTION bench.records(batch bigint, size int) RETURNS jsonb LANGUAGE sql AS $$
  SELECT jsonb_agg(jsonb_build_object(
           'bucket', jsonb_build_object('type', 1, 'value', batch || '/p' || i),
           'subject', jsonb_build_object('type', 2, 'id', batch),
           'source', jsonb_build_object('type', 3, 'rails_primary_key_id', i)))
    FROM generate_series(1, size) i
$$;

CREATE PROCEDURE bench.cycles_{schema}(size int, count int, INOUT us text DEFAULT '') LANGUAGE plpgsql AS $$
DECLARE
  -- No name twice, in no order.
  batches bigint[] := ARRAY(SELECT n FROM (SELECT DISTINCT (random() * 5e8)::bigint * 2 + 1 FROM generate_series(1, count)) AS d (n)
                             ORDER BY random());
  records jsonb;
  batch bigint;
  lease uuid;
  t0 timestamptz; t1 timestamptz; t2 timestamptz;
  spent interval[] := ARRAY['0', '0', '0', '0'];
BEGIN
  FOREACH batch IN ARRAY batches LOOP
    records := bench.records(batch, size);
    t0 := clock_timestamp();
    lease := {schema}.begin_update(1, records);
    t1 := clock_timestamp();
    PERFORM {schema}.commit_update(1, lease);
    t2 := clock_timestamp();
    spent[1] := spent[1] + (t1 - t0);
    spent[2] := spent[2] + (t2 - t1);
  END LOOP;
  COMMIT;
  FOREACH batch IN ARRAY batches LOOP
    records := bench.records(batch, size);
    t0 := clock_timestamp();
    lease := {schema}.begin_update(1, '[]', records);
    t1 := clock_timestamp();
    PERFORM {schema}.commit_update(1, lease);
    t2 := clock_timestamp();
    spent[3] := spent[3] + (t1 - t0);
    spent[4] := spent[4] + (t2 - t1);
  END LOOP;
  us := array_to_string(ARRAY(SELECT (extract(epoch FROM s) * 1e6 / cardinality(batches))::float8 FROM unnest(spent) s), ' ');
END $$;
