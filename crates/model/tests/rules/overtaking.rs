//! The check of recorded histories: right ones pass, faulty ones do not, and what cannot be known is no fault.

use claims_model::overtaking::{Freed, Overtakings, Sighted, Taking, overtakings};

/// The server's clock is ahead of that of the clients.
const AHEAD: i64 = 7_000_000;

/// A call that asks at `asked`, waits from then on with a priority, and has its name at `got`.
fn waits(name: &'static str, asked: i64, got: i64, priority: i32) -> Taking<&'static str> {
    let sighted = Sighted { from: asked + 1_000, until: got - 1_000, since: asked + 500 + AHEAD };
    Taking { name, asked, got, priority: Some(priority), sighted: Some(sighted) }
}

/// A call that finds its name free.
fn takes(name: &'static str, asked: i64, got: i64) -> Taking<&'static str> {
    Taking { name, asked, got, priority: None, sighted: None }
}

fn freed(from: &[i64]) -> Vec<Freed<&'static str>> {
    from.iter().map(|from| Freed { name: "ada", from: *from }).collect()
}

/// Asserts the number of compared pairs, and who was overtaken by whom.
fn judged(takings: &[Taking<&'static str>], freed: &[Freed<&'static str>], compared: usize, found: &[(usize, usize)]) {
    assert_eq!(overtakings(takings, freed), Overtakings { compared, found: found.to_vec() });
}

#[test]
fn calls_are_served_in_their_order() {
    let history = [waits("ada", 0, 40_000, 0), waits("ada", 10_000, 60_000, 0), waits("ada", 20_000, 80_000, 0)];
    judged(&history, &freed(&[38_000, 58_000, 78_000]), 3, &[]);
}

#[test]
fn a_waiter_overtakes() {
    let history = [waits("ada", 0, 60_000, 0), waits("ada", 10_000, 40_000, 0)];
    judged(&history, &freed(&[38_000, 58_000]), 1, &[(0, 1)]);
}

#[test]
fn a_call_that_does_not_wait_overtakes() {
    let history = [waits("ada", 0, 60_000, 0), takes("ada", 39_000, 40_000)];
    judged(&history, &freed(&[38_000, 58_000]), 1, &[(0, 1)]);
    // It was ready to wait, and was not seen waiting.
    let ready = Taking { priority: Some(0), ..history[1] };
    judged(&[history[0], ready], &freed(&[38_000, 58_000]), 1, &[(0, 1)]);
}

#[test]
fn priorities_count_as_seconds() {
    let freed = freed(&[2_038_000, 2_058_000]);
    // A call that began two seconds later goes first with a priority of three, and not with one of one.
    let late = |priority| [waits("ada", 0, 2_060_000, 0), waits("ada", 2_000_000, 2_040_000, priority)];
    judged(&late(3), &freed, 1, &[]);
    judged(&late(1), &freed, 1, &[(0, 1)]);
    // So does one that nobody has seen waiting, if its priority may have sufficed.
    let unseen = |priority| Taking { sighted: None, ..late(priority)[1] };
    judged(&[late(0)[0], unseen(3)], &freed, 1, &[]);
    judged(&[late(0)[0], unseen(1)], &freed, 1, &[(0, 1)]);
    // A low priority lets others go first.
    judged(&[waits("ada", 0, 60_000, -1), waits("ada", 10_000, 40_000, 0)], &self::freed(&[38_000]), 1, &[]);
}

#[test]
fn other_names_do_not_matter() {
    let other = [waits("ada", 0, 60_000, 0), waits("bea", 10_000, 40_000, 0)];
    judged(&other, &freed(&[38_000, 58_000]), 0, &[]);
}

#[test]
fn a_turn_may_be_lost() {
    // The name had been free for 100 ms, so the first waiter may have lost its turn.
    let history = [waits("ada", 0, 300_000, 0), takes("ada", 138_000, 140_000)];
    judged(&history, &freed(&[38_000]), 0, &[]);
    judged(&history, &freed(&[38_000, 41_000]), 1, &[(0, 1)]);
    // Nobody knows when it came free.
    judged(&history, &[], 0, &[]);
}

#[test]
fn nobody_is_overtaken_who_may_not_have_waited_yet() {
    let waiter = waits("ada", 0, 60_000, 0);
    // The other call had been sent before the waiter was seen.
    judged(&[waiter, takes("ada", 900, 40_000)], &freed(&[38_000]), 0, &[]);
    // Or it has the name at a time at which the waiter may have had it already.
    judged(&[waiter, takes("ada", 39_000, 59_500)], &freed(&[38_000]), 0, &[]);
    // Or the name was free before the waiter was seen. The other call had found that it was its turn, and leaves the queue late.
    let early = |asked| [waits("ada", asked, 60_000, 1), waits("ada", 10_000, 40_000, 0)];
    judged(&early(37_500), &freed(&[38_000, 58_000]), 0, &[]);
    judged(&early(37_000), &freed(&[38_000, 58_000]), 1, &[(0, 1)]);
    // Two that began at one moment, as far as the clock can tell.
    judged(&[waiter, waits("ada", 800, 40_000, 0)], &freed(&[38_000]), 1, &[]);
}
