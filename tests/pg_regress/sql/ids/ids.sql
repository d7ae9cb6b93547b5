-- Id spaces at the service: ranges, who may call, the ends of spaces and of bigint. (ids.sh tests the sequences of cells.)
-- t.lease() leases a range and shows it, or the error
CREATE FUNCTION t.lease(args text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT t.call('SELECT claims.lease_id_range(' || args || ')::text') $$;
CREATE FUNCTION t.ranges() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('cell %s: %s%s', cell_id, id_range, CASE WHEN closed_at IS NOT NULL THEN ' closed' END)
      FROM claims.id_ranges ORDER BY id_space, id_range $$;

-- only administrators add spaces, with a reason, each name once
SELECT t.call($$SELECT claims.add_id_space('rows', 'ids of rows', block_size => 1000)$$);
SELECT t.call($$SELECT claims.add_id_space('rows', 'again')$$);
SELECT t.call($$SELECT claims.add_id_space('other', ' ')$$);
SELECT t.call($$SELECT claims.add_id_space('other', 'x', first_id => 5, last_id => 4)$$);
SELECT t.call($$SELECT claims.add_id_space('other', 'x', last_id => 9223372036854775807)$$);
SELECT t.call($$SELECT claims.add_id_space('other', 'x', block_size => 0)$$);
SELECT t.call($$SELECT claims.add_id_space('', 'x')$$);
SELECT name, first_id, last_id, block_size, next_id FROM claims.id_spaces;
SELECT action, arguments FROM claims.admin_log WHERE action = 'add_id_space';
SET ROLE regress_claims_one;
SELECT t.call($$SELECT claims.add_id_space('other', 'x')$$);
SELECT t.call($$SELECT claims.restore_id_range(1, 'rows', 1, 2, 'x')$$);
SELECT t.call($$SELECT * FROM claims.id_ranges$$);

-- a cell's ranges follow each other, and those of another cell are in another block
SELECT t.lease($$1, 'rows', 400$$);
SELECT t.lease($$1, 'rows', 400$$);
RESET ROLE; SET ROLE regress_claims_two;
SELECT t.lease($$2, 'rows', 300$$);
RESET ROLE; SET ROLE regress_claims_one;
SELECT t.lease($$1, 'rows', 400$$);
SELECT t.lease($$1, 'rows', 400$$);
SELECT t.lease($$1, 'rows', 5000$$);
-- a range follows the one that is named, or begins a block
SELECT t.lease($$1, 'rows', 10, 0$$);
SELECT t.lease($$1, 'rows', 10, 0$$);
SELECT t.lease($$1, 'rows', 10, (SELECT 8010)$$);
SELECT t.lease($$1, 'rows', 10, 1300$$);
SELECT t.lease($$1, 'rows', 10, 9223372036854775807$$);
-- a cell leases only for itself, and only what exists
SELECT t.lease($$2, 'rows', 10$$);
SELECT t.lease($$1, 'nothing', 10$$);
SELECT t.lease($$1, 'rows', 0$$);
SELECT t.lease($$1, 'rows', 1000000001$$);
SELECT t.lease($$1, 'rows', NULL$$);
SELECT t.lease($$1, 'rows', 10, at_most => 500$$);
RESET ROLE; SET ROLE regress_claims_nobody;
SELECT t.lease($$1, 'rows', 10$$);
RESET ROLE;
SELECT t.ranges();

-- the default size is a million; a range of a transaction that was rolled back is lost, also under an old snapshot
SELECT claims.add_id_space('wide', 'the defaults');
SET ROLE regress_claims_one;
BEGIN; SELECT claims.lease_id_range(1, 'wide'); ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class WHERE false; SELECT claims.lease_id_range(1, 'wide'); ROLLBACK;
SELECT claims.lease_id_range(1, 'wide'), claims.lease_id_range(1, 'wide');
RESET ROLE; SET ROLE regress_claims_two;
SELECT claims.lease_id_range(2, 'wide');
RESET ROLE;

-- the end of a space: what is left, then 2200H
SELECT claims.add_id_space('small', 'a small one', 10, 30, 10);
SELECT t.lease($$1, 'small', 15$$);
SELECT t.lease($$2, 'small', 15$$);
SELECT t.lease($$2, 'small', 15$$);
SELECT t.lease($$1, 'small', 15$$);
SELECT t.lease($$1, 'small', 15$$);
-- a space grows, and never shrinks; what does not change it is refused
SELECT t.call($$SELECT claims.add_id_space('small', 'grows', 10, 29)$$);
SELECT t.call($$SELECT claims.add_id_space('small', 'grows', 11, 40)$$);
SELECT t.call($$SELECT claims.add_id_space('small', 'grows', 10, 40, 11)$$);
SELECT t.call($$SELECT claims.add_id_space('small', 'grows', 10, 30)$$);
SELECT claims.add_id_space('small', 'grows', last_id => 40);
SELECT name, first_id, last_id, block_size, next_id, max_range, ranges_per_day FROM claims.id_spaces WHERE name = 'small';
SELECT t.lease($$1, 'small', 15$$);
SELECT t.lease($$1, 'small', 15$$);
-- in its own transaction a new or changed space gives no ranges
BEGIN; SELECT claims.add_id_space('fresh', 'a new one'); SELECT t.lease($$1, 'fresh', 15$$); ROLLBACK;
-- the end of bigint
SELECT claims.add_id_space('end', 'the end of bigint', 9223372036854775800);
SELECT t.lease($$1, 'end', 5$$);
SELECT t.lease($$1, 'end', 5$$);
SELECT t.lease($$1, 'end', 5$$);

-- the exclusion constraint refuses what somebody writes by hand
SELECT t.call($$INSERT INTO claims.leased_id_ranges (space_number, id_range, cell_id) VALUES (1, '[399,402)', 2)$$);
SELECT c FROM t.call($$INSERT INTO claims.leased_id_ranges (space_number, id_range, cell_id) VALUES (1, '[399,)', 2)$$) c WHERE c !~ 'DETAIL';
SELECT contype, conname FROM pg_constraint WHERE conrelid = 'claims.leased_id_ranges'::regclass AND contype = 'x';

-- what a cell may do with ids: its own, others', unknown ones
SELECT claims.confirm_id_range(1, 'rows', 1, 800), claims.confirm_id_range(1, 'rows', 1, 801), claims.confirm_id_range(2, 'rows', 1, 800),
       claims.confirm_id_range(1, 'rows', 900000, 900001), claims.confirm_id_range(1, 'rows', 1, 1000);
SELECT t.call($$SELECT claims.confirm_id_range(1, 'nothing', 1, 2)$$);
SELECT t.call($$SELECT claims.confirm_id_range(1, 'rows', 2, 1)$$);
-- after another database of the cell was adopted, its ranges are closed, and none follows them
SELECT claims.present_epoch(1, 10), claims.present_epoch(1, 11, NULL, 'restored');
SELECT claims.confirm_id_range(1, 'rows', 1, 800), claims.confirm_id_range(2, 'rows', 1001, 1300);
SELECT t.lease($$1, 'rows', 10$$);
SELECT t.lease($$1, 'rows', 10, 800$$);

-- a restored service: an administrator records what it has forgotten, and what others have is refused
SELECT t.call($$SELECT claims.restore_id_range(1, 'rows', 20001, 20500, 'restored')$$);
SELECT t.call($$SELECT claims.restore_id_range(2, 'rows', 20400, 20600, 'restored')$$);
SELECT t.call($$SELECT claims.restore_id_range(99, 'rows', 30400, 30600, 'restored')$$);
SELECT t.call($$SELECT claims.restore_id_range(1, 'small', 1, 5, 'restored')$$);
SELECT claims.confirm_id_range(1, 'rows', 20001, 20500);
SELECT t.lease($$2, 'rows', 10, 0$$);

-- modes: no ranges while nothing can be begun
SELECT claims.set_mode('settle_only', 'a test');
SELECT regexp_replace(c, ' at .*: ', ' at <time>: ') FROM t.lease($$1, 'rows', 10$$) c;
SELECT claims.set_mode('open', 'a test');

-- what one cell may lease is limited: the ids of a range, and the ranges within 24 hours; not for administrators
SELECT claims.add_id_space('limited', 'limits', max_range => 20, ranges_per_day => 3);
SET ROLE regress_claims_one;
SELECT t.lease($$1, 'limited', 21$$);
SELECT t.lease($$1, 'limited', 21, or_less => true$$);
BEGIN; SELECT t.lease($$1, 'limited', 20$$); ROLLBACK;
SELECT t.lease($$1, 'limited', 1$$);
SELECT regexp_replace(c, 'in .* s, at .*\. An', 'in <seconds> s, at <time>. An') FROM t.lease($$1, 'limited', 1$$) c;
SELECT regexp_replace(c, 'in .* s, at .*\. An', 'in <seconds> s, at <time>. An') FROM t.lease($$1, 'limited', 1, 0$$) c;
-- another cell has its own limit
RESET ROLE; SET ROLE regress_claims_two;
SELECT t.lease($$2, 'limited', 5$$);
RESET ROLE;
SELECT t.lease($$1, 'limited', 21$$);
-- after a day the cell may lease again, and what is restored does not count
UPDATE claims.leased_id_ranges SET leased_at = leased_at - interval '1 day' WHERE cell_id = 1;
SELECT claims.restore_id_range(1, 'limited', 1000000000000000, 1000000000000000 + n, 'restored') FROM generate_series(0, 0) n;
SET ROLE regress_claims_one;
SELECT t.lease($$1, 'limited', 2, 22$$);
RESET ROLE;
-- an administrator changes the limits
SELECT claims.add_id_space('limited', 'more', max_range => 30, ranges_per_day => 2);
SET ROLE regress_claims_one;
SELECT t.lease($$1, 'limited', 30, 0$$);
SELECT left(c, 60) FROM t.lease($$1, 'limited', 1$$) c LIMIT 1;
RESET ROLE;
SELECT t.call($$SELECT claims.add_id_space('limited', 'x', max_range => 0)$$);
SELECT t.call($$SELECT claims.add_id_space('limited', 'x', max_range => 1000000001)$$);
SELECT t.call($$SELECT claims.add_id_space('limited', 'x', ranges_per_day => 0)$$);

-- check() finds what somebody wrote by hand
SELECT problem, detail FROM claims.check();
ALTER TABLE claims.leased_id_ranges DROP CONSTRAINT leased_id_ranges_never_overlap;
INSERT INTO claims.leased_id_ranges (space_number, id_range, cell_id) VALUES (1, '[399,402)', 2), (1, '[5000000,5000001)', 2);
SELECT problem, detail FROM claims.check() ORDER BY 1, 2;
DELETE FROM claims.id_spaces WHERE name = 'small';
SELECT problem, count(*) FROM claims.check() WHERE problem LIKE 'id space%' GROUP BY 1;
