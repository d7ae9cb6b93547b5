-- The shared database: something of each kind that a function could be given, of two cells.
SELECT claims.register_cell(1, 'every_one', 'one', 'https://one.example', '{"router": 1}'), claims.register_cell(2, 'every_two', 'two'), claims.register_cell(3, 'every_two');
SELECT claims.grant_read('every_reader'), claims.grant_monitor('every_monitor'), claims.grant_worker('every_worker');
SELECT claims.add_bucket_type(100, 'HANDLES', 'username', 'reject'), claims.add_bucket_type(101, 'MAILS', 'email');
CREATE FUNCTION pg_temp.records(VARIADIC names text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', split_part(n, ' ', 1), 'value', split_part(n, ' ', 2)),
        'subject', jsonb_build_object('type', 'GROUP', 'id', split_part(n, ' ', 3)), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', split_part(n, ' ', 3))))
      FROM unnest(names) n $$;
CREATE FUNCTION pg_temp.u(n int) RETURNS uuid LANGUAGE sql AS $$ SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid $$;
-- 1 and 2: outstanding; 3: committed; 4: rolled back; 5: fenced; 8: outstanding, of the other cell
SELECT claims.begin_update(1, pg_temp.records('ROUTES leased 1'), lease_uuid => pg_temp.u(1));
SELECT claims.begin_update(1, pg_temp.records('HANDLES lease2 2'), lease_uuid => pg_temp.u(2), cell_xid => '5');
SELECT claims.begin_update(1, pg_temp.records('ROUTES mine 10', 'ROUTES mine/too 11', 'HANDLES ada 12'), lease_uuid => pg_temp.u(3)), claims.commit_update(1, pg_temp.u(3));
SELECT claims.begin_update(1, pg_temp.records('ROUTES given-up 3'), lease_uuid => pg_temp.u(4)), claims.rollback_update(1, pg_temp.u(4));
SELECT claims.rollback_update(1, pg_temp.u(5));
SELECT claims.begin_update(2, pg_temp.records('ROUTES theirs 20', 'ROUTES theirs/too 21', 'HANDLES grace 22'), lease_uuid => pg_temp.u(7)), claims.commit_update(2, pg_temp.u(7));
SELECT claims.begin_update(2, pg_temp.records('ROUTES coming 23'), lease_uuid => pg_temp.u(8));
-- 9: a transfer
SELECT claims.prepare_transfer(pg_temp.u(9), 2, 1, '[{"type": "GROUP", "ids": [21]}]', 'a customer');
-- 10: one that is switched
SELECT claims.prepare_transfer(pg_temp.u(10), 2, 1, '[{"type": "GROUP", "ids": [22]}]', 'another one'), claims.switch_transfer(pg_temp.u(10), 'another one');
SELECT claims.reserve_names('ROUTES', '{admin,root}', 'ours');
SELECT claims.add_id_space('rows', 'ids of rows');
SELECT claims.add_expiring('shards', '{a,b,c}'), (SELECT count(*) FROM claims.acquire_expiring('shards', 'somebody', '1 h', 1));
SELECT claims.enqueue_request('work', 'e1', 'create', '{"a": 1}'), claims.enqueue_request('work', 'e1', 'update'), claims.enqueue_request('work', 'e2', 'update');
SELECT count(*) FROM claims.take_requests('work', pg_temp.u(6), hold_for => '1 h');
-- Tables, of which the role every_table_owner owns some.
\ir setup_tables.sql
