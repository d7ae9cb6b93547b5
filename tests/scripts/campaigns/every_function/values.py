"""The arguments of calls: for each name of an argument one value that may go through, and for each type values that are odd. All are SQL."""

BIG = "repeat('x', 3000000)"
UUID = "00000000-0000-4000-8000-{:012}"
LEASES = {n: f"'{UUID.format(n)}'" for n in range(1, 13)}
RECORD = ('{"bucket": {"type": "ROUTES", "value": "fresh"}, "subject": {"type": "GROUP", "id": 1}, '
          '"source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}')

# Values by the name of the argument, or by function and name.
PLAUSIBLE = {
    "cell_id": "1", "from_cell": "2", "to_cell": "1", "service": "'service'", "reason": "'a reason'", "correct": "false",
    "create_records": f"'[{RECORD}]'", "destroy_records": "'[]'", "alternatives": f"""'[{{"create_records": [{RECORD}]}}]'""",
    "lease_uuid": LEASES[3], "transfer_uuid": LEASES[9], "commit_leases": f"ARRAY[{LEASES[3]}]::uuid[]", "rollback_leases": "'{}'",
    "lease_uuids": f"ARRAY[{LEASES[11]}]::uuid[]", "bucket_type": "'ROUTES'", "bucket_value": "'mine'", "bucket_values": "'{wanted}'",
    "buckets": """'[{"type": "ROUTES", "value": "mine"}]'""", "bucket_types": "'{ROUTES}'", "profiles": "'{exact}'", "profile": "'casefold'",
    "confusables": "'allow'", "subject_type": "'GROUP'", "source_type": "'RAILS_TABLE_ROUTES'", "subject_key": "'group_id'", "source_key": "'id'",
    "subjects": """'[{"type": "GROUP", "ids": [20]}]'""", "attribute": "'name'", "table_name": "'app.names'", "condition": "'id > 0'",
    "entity_column": "'name'", "payload_form": "'change'", "queue": "'work'", "entity": "'e2'", "request_type": "'update'", "payload": "'{}'", "process_id": LEASES[6],
    "kind": "'shards'", "key": "'a'", "keys": "'{b}'", "claimant": "'somebody'", "token": "1", "ttl": "'10 s'", "hold_for": "'10 s'",
    "timeout": "'0.01 s'", "max_runtime": "'1 s'", "recent": "'0 s'", "stale_after": "'10 min'", "older_than": "'1 day'", "max_results": "10",
    "batch_size": "100", "epoch": "1", "seconds": "60", "predecessor": "NULL", "adopt_because": "NULL", "after": "NULL", "worker": "'w'", "pass": LEASES[10],
    "expected": "'[]'", "extra_uuids": "NULL", "leases": f"""'[{{"lease_uuid": "{UUID.format(3)}", "created_at": "2020-01-01"}}]'""",
    "role_name": "'every_worker'", "name": "'NAMES'", "address": "NULL", "attributes": "NULL", "id": "200", "mode": "'open'", "unicode": "claims.canonical('ROUTES', 'x')",
    "audiences": "'{reader}'", "granting": "true", "server_name": "'unnamed'", "options": "'{}'", "catalog": "'pg_foreign_server'::regclass::oid",
    "shard_name": "'claims'", "value_type": "'text'::regtype::oid", "warn": "false", "waits": "false", "add": "true", "declaration": "NULL", "constraint_name": "NULL", "share": "100", ("set_enforcement", "mode"): "'enforce'", "dry_run": "true", "row_count": "2", "slots": "1",
    "shard_table": "'claims.claims'::regclass::oid",
    "problems": "0", "shards": "NULL", "error": "NULL", "skeleton": LEASES[1], "cell_xid": "NULL", "after_id": "0", "created_after": "NULL",
    "source_id_gt": "NULL", "source_id_lte": "NULL", "begins_per_second": "NULL", "refusals_per_second": "NULL", "max_range": "1000000", "ranges_per_day": "100", "or_less": "false", "max_outstanding": "NULL", "max_batch_size": "NULL", "max_priority": "NULL", "whole_sources": "false",
    "rows_per_second": "NULL", "records": f"'[{RECORD}]'", "preview": "true", ("wait_for_import", "seconds"): "0.01", "value": "'wanted'", "source_id": "NULL",
    "display_values": "NULL", "asking_node": "1", "asking_pid": "1", "per_second": "10", "anchor": "'a'", "outcome": "'committed'",
    "id_space": "'rows'", "size": "10", "continue_after": "NULL", "at_most": "NULL", "first_id": "1000000001", "last_id": "1000000010", "block_size": "NULL",
    "sequence": "'app.numbers'", "low_water": "10", "place": "NULL", "lineage": "NULL", "timeline": "NULL", "is_new": "true", "settles": "false",
    ("claim_attribute", "table_name"): "'app.free'", ("declare_attribute", "table_name"): "'app.free'", ("capture_requests", "table_name"): "'app.free'",
    ("spell_out_condition", "table_name"): "'app.names'::regclass::oid", ("change_capture_triggers", "table_name"): "'app.free'::regclass::oid",
    ("change_request_triggers", "table_name"): "'app.free'::regclass::oid", ("changes_of", "bucket_type"): "1", ("find_claims_on", "bucket_type"): "1", ("is_look_in_flight", "bucket_type"): "100",
    ("is_look_in_flight", "shard_name"): "'skeletons'", ("is_look_reserved", "shard_name"): "'skeletons'", ("is_look_reserved", "bucket_type"): "100", ("is_lease_in_flight", "shard_name"): "'claim_leases'",
    ("buckets_in_flight", "bucket_types"): "'{1}'", ("begin_update", "lease_uuid"): "NULL", ("begin_update_text", "lease_uuid"): "NULL",
    ("try_begin_update", "lease_uuid"): "NULL", ("begin_first", "lease_uuid"): "NULL", ("rollback_update", "lease_uuid"): LEASES[1], ("force_rollback", "lease_uuid"): LEASES[8], ("force_rollback", "cell_id"): "2", ("finish_transfer", "transfer_uuid"): LEASES[10],
    ("finish", "lease_uuid"): LEASES[1], ("track_lease", "lease_uuid"): "gen_random_uuid()", ("lease_details", "bucket_type"): "NULL",
    ("lease_details", "bucket_value"): "NULL", ("lease_details", "lease_uuid"): LEASES[1], ("rename_type", "kind"): "'bucket'", ("rename_type", "id"): "100", ("register_cell", "name"): "'four'",
    ("register_cell", "cell_id"): "4", ("remove_cell", "cell_id"): "3", ("unreserve_names", "bucket_values"): "'{admin}'",
    ("canonical_form", "profile"): "'username'", ("prepare_transfer", "transfer_uuid"): "gen_random_uuid()", ("remove_service", "server_name"): "'named'",
    ("settle_requests", "process_id"): LEASES[6], ("take_requests", "process_id"): "gen_random_uuid()", ("add_expiring", "keys"): "'{z}'",
    ("set_profile", "bucket_type"): "'MAILS'", ("retry_requests", "entity"): "'e1'", ("preview_import", "outcome"): "'invalid'", ("list_discrepancies", "outcome"): "'busy'", "max_names": "10",
    "table_names": "'{app.free}'", ("declare_unique", "table_names"): "ARRAY['app.free'::regclass::oid]", ("find_duplicates", "table_names"): "ARRAY['app.free'::regclass::oid]", "column_name": "'name'", "conditions": "NULL", "max_claims": "1000",
    ("renew_generations", "table_name"): "'app.free'::regclass::oid",
    "context": "'a test'", "cell_role": "'app'", "subject_id": "'1'", ("erase_name", "bucket_value"): "'forgotten'",
    "keep_for": "'1 day'", "reclaim": "'subject'", ("set_quarantine", "bucket_type"): "'MAILS'", ("hand_over", "bucket_value"): "'handed'", ("hand_over", "source_id"): "'1'",
}

STRINGS = ["''", "' '", "'x'", "'every_two'", "'0'", "'-1'", "'null'", "'[]'", "'{}'", "'\"'", "E'a\\nb'", "E'\\u0001'", "E'\\u202Eabc'", "'%s%n'", "'NaN'", "'1e400'",
           "'''; DROP TABLE claims.claims; --'", "U&'\\+01F600'", "E'e\\u0301'", "repeat(E'a\\u0301', 5000)", "repeat('é', 1300)"]
OIDS = ["0", "1", "4294967295", "'claims.claims'::regclass::oid", "'app.low'::regclass::oid", "'app.shown'::regclass::oid", "'app.of_superuser'::regclass::oid",
        "'pg_class'::regclass::oid", "'app.odd'::regtype::oid", "'anyelement'::regtype::oid", "16383"]


def arrays(element, values):
    """Arrays that are empty, of NULLs, of one and of several elements, of two dimensions with unusual lower bounds, and of many."""
    return ["'{}'", "'{NULL}'", f"ARRAY[{values[0]}]", f"ARRAY[{values[0]}, NULL, {values[-1]}]", f"ARRAY[{values[0]}, {values[0]}]",
            f"array_fill(({values[0]})::{element}, '{{2,2}}', '{{-1,7}}')", f"array_fill(NULL::{element}, '{{3}}', '{{2147483640}}')",
            f"array_fill(({values[-1]})::{element}, '{{120000}}')"]


JSON = ["'null'", "'[]'", "'{}'", "'1'", "'\"x\"'", "'true'", "'[null]'", "'[[]]'", "'[1]'", "'[{}]'", "'[[[{\"a\": []}]]]'", "'[{\"bucket\": null}]'",
        "'[{\"bucket\": {\"type\": 1, \"value\": 2}}]'", "'[{\"type\": \"ROUTES\", \"value\": \"\"}]'", "'[{\"type\": \"ROUTES\", \"ids\": [null]}]'",
        "'{\"type\": \"GROUP\", \"ids\": [1e500]}'", "'[{\"lease_uuid\": \"x\"}]'", "'[{\"lease_uuid\": null, \"created_at\": \"infinity\"}]'",
        "'[{\"lease_uuid\": \"00000000-0000-4000-8000-000000000001\", \"created_at\": \"NaN\", \"cell_xid\": -1}]'", "'[{\"create_records\": 1}]'",
        f"'[{RECORD}, {RECORD}]'", "('[' || repeat('1e1000,', 2000) || '0]')", "(repeat('[', 900) || repeat(']', 900))",
        "('[' || repeat('{\"bucket\": {\"type\": \"ROUTES\", \"value\": \"v\"}},', 3000) || 'null]')", "('{\"k\": \"' || repeat('x', 1000000) || '\"}')"]

NUMBERS = {2: ["0", "-1", "2", "4", "32767", "-32768"], 4: ["0", "1", "2", "-1", "99", "2147483647", "-2147483648"],
           8: ["0", "1", "2", "3", "-1", "77", "9223372036854775807", "-9223372036854775808"]}
UUIDS = ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", *LEASES.values(), "gen_random_uuid()"]
INTERVALS = ["'0'", "'-1 s'", "'1 us'", "'0.02 s'", "'178000000 years'", "'-178000000 years'", "'1 mon -1000000 days'", "'2147483647 days -2147483648 hours'"]
MOMENTS = ["now()", "'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31'", "'epoch'"]

ODD = {
    "bigint": NUMBERS[8], "integer": NUMBERS[4], "smallint": NUMBERS[2], "boolean": ["true", "false"], "text": [*STRINGS, BIG], "name": STRINGS,
    "double precision": ["'NaN'", "'Infinity'", "'-Infinity'", "1e308", "-0.0"], "numeric": ["'NaN'", "1e1000", "-1"],
    "jsonb": JSON, "uuid": UUIDS, "interval": INTERVALS, "timestamp with time zone": MOMENTS, "oid": OIDS, "regclass": [f"({oid})::oid" for oid in OIDS],
    "xid8": ["'0'", "'1'", "'3'", "'18446744073709551615'", "pg_current_xact_id()"], "bytea": ["''", "'\\x00ff'", "decode(repeat('00', 100000), 'hex')"],
    "uuid[]": arrays("uuid", UUIDS), "text[]": arrays("text", ["'x'", "''", "repeat('y', 3000)", "'ROUTES'"]), "integer[]": arrays("int", NUMBERS[4]),
    "bigint[]": arrays("bigint", NUMBERS[8]), "name[]": arrays("name", ["'x'", "''"]), "oid[]": arrays("oid", OIDS), "regclass[]": arrays("regclass", [f"({oid})::oid::regclass" for oid in OIDS]),
}


def plausible(function, argument, kind):
    """A value with which the call may go through."""
    value = PLAUSIBLE.get((function, argument), PLAUSIBLE.get(argument))
    return value if value is not None else odd(kind)[1]


def odd(kind):
    """NULL and the others."""
    return ["NULL", *ODD.get(kind, ["''"])]
