"""The names that the campaign of profile_race.sh fights for, and the functions of its database."""
DATABASE = "script_profile_race"
CELLS = (1, 2, 3)
# Cells to which claims of guarded families move before release_records, one cell for each family.
GRAVES = (4, 5)
# One type refuses look-alikes under every profile that it gets; the other one allows them now and then.
STRICT, LOOSE = "STRICT", "LOOSE"
# The profile of a third type changes as fast as possible.
QUICK = "QUICK"
PROFILES = {STRICT: ["casefold", "username", "path"], LOOSE: ["exact", "casefold", "username"], QUICK: ["exact", "casefold", "username"]}
# Names of letters that have twins in Cyrillic: many spellings of few skeletons.
TWINS = dict(zip("aceop", "асеор"))
CONTESTED = ["pace", "cope", "poc"]
GUARDED = ["ocea", "paco"]
# Claimed from the first moment to the last, each by the spelling that every profile takes for itself.
PINNED = ["Ada-Lovelace", "ÉCOLE", "Straße", "ÇELIK"]
# Always claimed: replaced and moved between cells all the time.
MOVING = ["Bo-Diddley", "İzmir"]
MOVING_SUBJECT, PINNED_SUBJECT, GUARDED_SUBJECT = 77, 78, 4000

SETUP = f"""
CREATE EXTENSION claims;
ALTER DATABASE {DATABASE} SET client_min_messages = error;
ALTER DATABASE {DATABASE} SET claims.change_feed = on;
SELECT claims.register_cell(n, 'postgres', 'cell ' || n) FROM generate_series(1, {len(CELLS) + len(GRAVES)}) n;
SELECT claims.add_bucket_type(110, '{STRICT}', 'casefold', 'reject'), claims.add_bucket_type(111, '{LOOSE}'), claims.add_bucket_type(112, '{QUICK}');

CREATE FUNCTION claim(type text, name text, id int DEFAULT 1, subject int DEFAULT 1) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', type, 'value', name),
        'subject', jsonb_build_object('type', 'GROUP', 'id', subject), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', id))) $$;
CREATE FUNCTION bucket(type text, name text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', type, 'value', name))) $$;
-- The skeleton of a name, of the letters that are used here.
CREATE FUNCTION skeleton(profile text, name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE profile WHEN 'exact' THEN translate(name, 'асеорАСЕОР', 'aceopACEOP') ELSE lower(translate(name, 'асеорАСЕОР', 'aceopaceop')) END $$;

-- Two owners of one skeleton, but for those that are one lease's: there one name follows the other.
CREATE FUNCTION look_alikes() RETURNS TABLE (problem text) LANGUAGE sql STABLE AS $$
    SELECT format('%s: %s of cell %s looks like %s of cell %s', t.name, a.bucket_value, a.creator_id, b.bucket_value, b.creator_id)
      FROM claims.claims a JOIN claims.claims b ON b.bucket_type = a.bucket_type AND b.bucket_value > a.bucket_value
      JOIN claims.bucket_types t ON t.id = a.bucket_type
     WHERE t.confusables = 'reject' AND a.creator_id <> -1 AND b.creator_id <> -1 AND (a.lease_uuid = b.lease_uuid) IS NOT TRUE
       AND skeleton(t.profile, a.bucket_value) = skeleton(t.profile, b.bucket_value) $$;

-- Reads names that are always claimed, in all ways, for a while; a line for each kind of read, with what it missed.
CREATE FUNCTION read_for(span interval, still text[], moving text[]) RETURNS TABLE (kind text, reads bigint, missed bigint, first text) LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp() + span;
    done jsonb := '{{}}'; lost jsonb := '{{}}'; firsts jsonb := '{{}}';
    type text; name text; kind text; found boolean;
    records jsonb;
BEGIN
    WHILE clock_timestamp() < until LOOP
        FOREACH type IN ARRAY ARRAY['{STRICT}', '{LOOSE}', '{QUICK}'] LOOP
            FOREACH kind IN ARRAY ARRAY['get_record', 'records', 'get_records', 'verify_records', 'list_records', 'lease_details', 'bucket_history'] LOOP
                name := (still || moving)[1 + floor(random() * cardinality(still || moving))];
                CASE kind
                WHEN 'get_record' THEN
                    -- Many in one statement, which has one snapshot.
                    SELECT count(*) = 40 INTO found
                      FROM generate_series(1, 40) g CROSS JOIN LATERAL claims.get_record(type, name || left(g::text, 0)) r
                     WHERE coalesce(r.display_value, r.bucket_value) = name;
                WHEN 'records' THEN
                    SELECT count(*) = 1 INTO found FROM claims.records r WHERE r.bucket_type = type AND r.bucket_value = claims.canonical(type, name);
                WHEN 'get_records' THEN
                    SELECT jsonb_agg(jsonb_build_object('type', type, 'value', n)) INTO records FROM unnest(still || moving) n;
                    SELECT count(*) = jsonb_array_length(records) INTO found FROM claims.get_records(records);
                WHEN 'verify_records' THEN
                    SELECT jsonb_agg(claim(type, n, 1000, {PINNED_SUBJECT}) -> 0) INTO records FROM unnest(still) n;
                    SELECT count(*) = 0 INTO found FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', '999', '1000', records, '0', false) v WHERE v.bucket_type = type AND v.discrepancy <> 'extra';
                WHEN 'list_records' THEN
                    SELECT count(*) = cardinality(still) INTO found FROM claims.list_records(1, 'RAILS_TABLE_ROUTES') r WHERE r.bucket_type = type AND coalesce(r.display_value, r.bucket_value) = ANY (still);
                WHEN 'bucket_history' THEN
                    SELECT count(*) > 0 INTO found FROM claims.bucket_history(type, name);
                WHEN 'lease_details' THEN
                    -- Of a claim that no lease holds there is nothing to be told; of one that a lease holds there is.
                    SELECT coalesce(bool_and(d.n > 0), true) INTO found
                      FROM claims.records r CROSS JOIN LATERAL (SELECT count(*) AS n FROM claims.lease_details(bucket_type => type, bucket_value => name)) d
                     WHERE r.bucket_type = type AND r.lease_uuid IS NOT NULL AND coalesce(r.display_value, r.bucket_value) = name;
                END CASE;
                done := jsonb_set(done, ARRAY[kind], to_jsonb(coalesce((done ->> kind)::bigint, 0) + 1));
                IF NOT found THEN
                    lost := jsonb_set(lost, ARRAY[kind], to_jsonb(coalesce((lost ->> kind)::bigint, 0) + 1));
                    firsts := jsonb_build_object(kind, type || ' ' || name) || firsts;
                END IF;
            END LOOP;
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT d.key, d.value::bigint, coalesce((lost ->> d.key)::bigint, 0), firsts ->> d.key FROM jsonb_each_text(done) d;
END $$;
"""


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def spelled(draw, family):
    """A spelling of a name of the family: letters of either script, capital or not."""
    letters = [TWINS[letter] if draw.random() < 0.5 else letter for letter in family]
    return "".join(letter.upper() if draw.random() < 0.2 else letter for letter in letters)
