//! The ways in which a cell calls its service.

use super::call::Call;

/// A statement of a cell, and the call in it that is lied about.
pub struct Way {
    pub name: &'static str,
    pub call: Call,
    /// The statements before it, with honest answers.
    pub before: &'static [Before],
    /// Its statements. `{name}` is a name that no other case uses.
    pub acts: &'static [&'static str],
    pub limit: Limit,
    pub session: Kind,
    /// Whether success says that the answer was the one to the request.
    pub reports: bool,
    /// A result that overlooks a row without a claim, whatever the service answers.
    pub overlooks: Option<&'static str>,
}

/// The session of the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A session that has a connection already.
    Kept,
    /// A session without a connection.
    Fresh,
    /// A background worker, by its name in pg_stat_activity.
    Worker(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// It ends by itself when the timeout of the service has passed.
    Call,
    /// It ends by itself when the timeouts of the connection and of the service have passed.
    Connection,
    /// It may take a minute, and obeys a cancel.
    Minute,
}

pub enum Before {
    App(&'static str),
    /// As the superuser, whose changes are not captured.
    Unseen(&'static str),
    /// A lease for `{name}`, whose transaction was rolled back without a message to the service.
    LostLease,
}

use Before::{App, LostLease, Unseen};
use Kind::{Fresh, Kept, Worker};

const SAVE: &str = "INSERT INTO routes (name) VALUES ('{name}')";
/// A save whose lease is not settled.
const PENDING: &str = "BEGIN; INSERT INTO routes (name) VALUES ('{name}');
    SELECT set_config('forge.lease', claims.begin_pending({cell}, 'service')::text, false); COMMIT";
const FINISH: &str = "SELECT claims.finish({cell}, 'service', current_setting('forge.lease')::uuid)";
const RECONCILE: &str = "SELECT claims.reconcile({cell}, 'service', '0')";
const EXPLAIN: &str =
    "SELECT verdict FROM claims.explain_lease({cell}, 'service', current_setting('forge.lease')::uuid)";
const VERIFY: &str = "SELECT claims.verify({cell}, 'service', 'RAILS_TABLE_ROUTES', recent => '0')";
const CORRECT: &str = "SELECT claims.verify({cell}, 'service', 'RAILS_TABLE_ROUTES', recent => '0', correct => true)";
const SHARE: &str = "SELECT claims.verify_share(current_setting('forge.pass')::uuid, 'one', 'service', recent => '0')";
const BEGIN_SHARE: &str =
    "SELECT set_config('forge.pass', claims.begin_verification({cell}, 'RAILS_TABLE_ROUTES')::text, false)";
/// Says `f` if every row has its claim, as far as the call could look.
const UNCLAIMED: &str = "SELECT unclaimed > 0 OR in_progress > 0 OR NOT finished
      FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES', {cell}, 'service', max_runtime => '1 s')";
/// A row without a claim.
const DAMAGE: Before = Unseen("INSERT INTO routes (name) VALUES ('{name}-unseen')");
/// Claims without rows, so many that the cell asks the service where to divide the range.
const EMPTY: [Before; 2] = [
    App("INSERT INTO routes (name) SELECT '{name}-' || n FROM generate_series(1, 5) AS n"),
    Unseen("DELETE FROM routes WHERE name LIKE '{name}-_'"),
];

const fn way(name: &'static str, call: Call, limit: Limit, acts: &'static [&'static str]) -> Way {
    Way { name, call, before: &[], acts, limit, session: Kept, reports: true, overlooks: None }
}

const BEGIN_PENDING: &str =
    "BEGIN; INSERT INTO routes (name) VALUES ('{name}'); SELECT claims.begin_pending({cell}, 'service'); COMMIT";

const REFILL: &str = "SELECT claims.refill_ids({cell}, 'service')";
/// Leaves a few ids, so that the next range is leased.
const SPEND: &str = "SELECT setval('forged_ids', greatest(last_value, seqmax - 5)) FROM forged_ids, pg_sequence WHERE seqrelid = 'forged_ids'::regclass";

/// So many names that the cell asks the service for its limit.
const MANY: &str = "INSERT INTO routes (name) SELECT '{name}-' || n FROM generate_series(1, 1001) AS n";

pub static WAYS: &[Way] = &[
    way("automatic mode", Call::Begin, Limit::Call, &[SAVE]),
    Way { session: Fresh, ..way("automatic mode", Call::Connect, Limit::Connection, &[SAVE]) },
    way("begin_pending", Call::Begin, Limit::Call, &[BEGIN_PENDING]),
    Way { session: Fresh, ..way("begin_pending", Call::Connect, Limit::Connection, &[BEGIN_PENDING]) },
    way("many names", Call::Limit, Limit::Call, &[MANY]),
    Way { before: &[App(PENDING)], ..way("finish", Call::Commit, Limit::Call, &[FINISH]) },
    Way { before: &[App(PENDING), App(FINISH)], ..way("finish again", Call::Outcomes, Limit::Call, &[FINISH]) },
    Way {
        reports: false,
        ..way(
            "after COMMIT",
            Call::CommitUnflushed,
            Limit::Call,
            &[SAVE, "INSERT INTO routes (name) VALUES ('{name}-next')"],
        )
    },
    Way {
        reports: false,
        ..way(
            "after ROLLBACK",
            Call::Rollback,
            Limit::Call,
            &[
                "BEGIN; INSERT INTO routes (name) VALUES ('{name}-gone'); SELECT claims.begin_pending({cell}, 'service'); ROLLBACK",
                SAVE,
            ],
        )
    },
    Way {
        before: &[App(PENDING)],
        ..way(
            "an own lease",
            Call::Settle,
            Limit::Call,
            &["UPDATE routes SET name = '{name}-new' WHERE name = '{name}'"],
        )
    },
    Way { before: &[LostLease], ..way("a lost lease", Call::Holders, Limit::Call, &[SAVE]) },
    Way { session: Fresh, ..way("reconcile", Call::Connect, Limit::Minute, &[RECONCILE]) },
    way("reconcile", Call::Present, Limit::Minute, &[RECONCILE]),
    Way { before: &[App(PENDING)], ..way("reconcile", Call::List, Limit::Minute, &[RECONCILE]) },
    Way { before: &[App(PENDING)], ..way("reconcile", Call::Settle, Limit::Minute, &[RECONCILE]) },
    way("reconcile", Call::Outcomes, Limit::Minute, &[RECONCILE]),
    Way { before: &[App(PENDING)], ..way("explain_lease", Call::Outcomes, Limit::Minute, &[EXPLAIN]) },
    Way { before: &[App(PENDING)], ..way("explain_lease", Call::Details, Limit::Minute, &[EXPLAIN]) },
    way("verify", Call::Digest, Limit::Minute, &[VERIFY]),
    Way {
        before: &EMPTY,
        ..way(
            "verify",
            Call::Nth,
            Limit::Minute,
            &["SELECT claims.verify({cell}, 'service', 'RAILS_TABLE_ROUTES', 1, recent => '0')"],
        )
    },
    Way { before: &[DAMAGE], ..way("verify", Call::Compare, Limit::Minute, &[VERIFY]) },
    way("verify and correct", Call::Present, Limit::Minute, &[CORRECT]),
    Way { before: &[DAMAGE], ..way("verify and correct", Call::Correct, FIVE_SECONDS, &[CORRECT]) },
    Way {
        before: &[DAMAGE, Unseen("DELETE FROM claims.verification_passes"), App(BEGIN_SHARE), App(SHARE)],
        ..way("verify_share", Call::Compare, Limit::Minute, &[SHARE])
    },
    Way {
        before: &[DAMAGE],
        ..way(
            "list_discrepancies",
            Call::Compare,
            Limit::Minute,
            &["SELECT count(*) FROM claims.list_discrepancies({cell}, 'service', 'RAILS_TABLE_ROUTES', recent => '0')"],
        )
    },
    Way {
        before: &[DAMAGE, App(PENDING)],
        overlooks: Some("f"),
        ..way("unclaimed_rows", Call::List, Limit::Minute, &[UNCLAIMED])
    },
    Way { before: &[DAMAGE], overlooks: Some("f"), ..way("unclaimed_rows", Call::Digest, Limit::Minute, &[UNCLAIMED]) },
    Way {
        before: &[DAMAGE],
        overlooks: Some("f"),
        ..way("unclaimed_rows", Call::Compare, Limit::Minute, &[UNCLAIMED])
    },
    Way { before: &[App(REFILL), App(SPEND)], ..way("refill_ids", Call::Range, Limit::Minute, &[REFILL]) },
    Way { before: &[App(REFILL), App(SPEND)], ..way("refill_ids", Call::Confirm, Limit::Minute, &[REFILL]) },
    recovering(Call::Connect, &[App(PENDING)]),
    recovering(Call::Settle, &[App(PENDING)]),
    recovering(Call::Present, &[]),
    recovering(Call::List, &[LostLease]),
    verifying(Call::Digest, &[]),
    verifying(Call::Compare, &[DAMAGE]),
    verifying(Call::Correct, &[DAMAGE]),
];

/// A correction gets five seconds, which is too long to wait for, so it is canceled, too.
const FIVE_SECONDS: Limit = Limit::Minute;

const fn recovering(call: Call, before: &'static [Before]) -> Way {
    Way { session: Worker("claims worker"), before, reports: false, ..way("the worker", call, Limit::Minute, &[]) }
}

const fn verifying(call: Call, before: &'static [Before]) -> Way {
    Way { session: Worker("claims verifier"), before, reports: false, ..way("the verifier", call, Limit::Minute, &[]) }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:?}", self.name, self.call)
    }
}
