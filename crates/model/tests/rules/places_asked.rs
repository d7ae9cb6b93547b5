//! Sessions that wait for places at services, and the connections that they ask for.

use claims_model::places::{Asked, Chance, Demand, Places};
use claims_model::queue::MAX_WAITING;
use zerocopy::FromZeros;

/// For so long a connection must be unused, and so much later it is asked for again, in microseconds.
const IDLE_US: i64 = 50_000;
const ASK_AGAIN_US: i64 = 200_000;

#[test]
fn the_connection_that_is_unused_for_the_longest_time_is_asked_for() {
    let mut places = <Places<2, 2, 4>>::new_zeroed();
    let holders: Vec<_> = (20..24).map(|process| places.hold(1 + u64::from(process == 23), process)).collect();
    assert_eq!(holders, [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(places.hold(1, 24), None, "there is no room");
    let idle_since = |number: usize| [None, Some(1000), Some(500), Some(1)][number];
    let now = 1000 + IDLE_US;
    assert_eq!(places.ask(1, now, idle_since), None, "nobody waits");
    let tickets: Vec<_> = (10..12).map(|process| places.arrive(1, process).expect("there is room")).collect();
    assert_eq!(places.ask(1, 499 + IDLE_US, idle_since), None, "a call has just ended");
    let asked = |holder, process, to_wake| Some(Asked { holder, process, to_wake });
    assert_eq!(places.ask(1, now, idle_since), asked(2, 22, 10));
    assert_eq!(places.chance(tickets[0]), Chance::Good);
    assert_eq!(places.ask(1, now, idle_since), asked(1, 21, 11), "the next one, for the next one");
    assert_eq!(places.ask(1, now, idle_since), None, "who has a place asks for none");
    places.lost(tickets[0]);
    assert_eq!(places.ask(1, now, idle_since), None, "all were asked for already");
    assert_eq!(places.ask(1, now + ASK_AGAIN_US, idle_since), asked(2, 22, 10), "it is still open");
    places.let_go(2);
    places.lost(tickets[0]);
    assert_eq!(places.hold(1, 30), Some(2), "its number is free");
    assert_eq!(places.ask(1, now + ASK_AGAIN_US, idle_since), asked(2, 30, 10));
}

#[test]
fn nobody_waits_for_another_service_and_there_is_an_end_of_waiting_sessions() {
    let mut places = Box::new(<Places>::new_zeroed());
    let tickets: Vec<_> =
        (0..MAX_WAITING as u32).map(|process| places.arrive(1, process).expect("there is room")).collect();
    assert_eq!(places.arrive(2, 7), None);
    assert_eq!(places.leave(tickets[5], false), [None, Some(0)]);
    let other = places.arrive(2, 7).expect("there is room");
    assert_eq!((places.chance(other), places.chance(999_999)), (Chance::Seldom, Chance::Seldom));
    assert_eq!(places.demand(3, 0), Demand::None);
}
