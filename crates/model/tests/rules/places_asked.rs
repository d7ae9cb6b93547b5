//! Sessions that wait for places at services, the connections that they ask for, and those that pass their places on.

use std::cell::Cell;
use std::time::Duration;

use claims_model::places::{Asked, Chance, Demand, MAX_SERVICES, Numbers, Places};
use claims_model::queue::MAX_WAITING;
use zerocopy::FromZeros;

/// For so long a connection must be unused.
const UNUSED: Duration = Duration::from_micros(IDLE_US as u64);
const IDLE_US: i64 = 50_000;
/// For so long a service counts as full after it has refused a connection, in microseconds.
const FULL_US: i64 = 10_000_000;

#[test]
fn the_connection_that_is_unused_for_the_longest_time_is_asked_for() {
    let mut places = <Places<2, 2, 4>>::new_zeroed();
    let holders: Vec<_> = (20..24).map(|process| places.hold(1 + u64::from(process == 23), process, UNUSED)).collect();
    assert_eq!(holders, [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(places.hold(1, 24, UNUSED), None, "there is no room");
    // Those that were asked for since they are unused are not asked for again.
    let asked_for = Cell::new([false; 4]);
    let idle_since =
        |number: usize| [None, Some(1000), Some(500), Some(1)][number].filter(|_| !asked_for.get()[number]);
    let now = 1000 + IDLE_US;
    assert_eq!(places.ask(1, now, idle_since), None, "nobody waits");
    let tickets: Vec<_> = (10..12).map(|process| places.arrive(1, process).expect("there is room")).collect();
    assert_eq!(places.ask(1, 499 + IDLE_US, idle_since), None, "a call has just ended");
    let asked = |holder, process, to_wake| Some(Asked { holder, process, to_wake });
    assert_eq!(places.ask(1, now, idle_since), asked(2, 22, 10));
    asked_for.set([false, false, true, false]);
    assert_eq!(places.chance(tickets[0]), Chance::Good);
    assert_eq!(places.ask(1, now, idle_since), asked(1, 21, 11), "the next one, for the next one");
    asked_for.set([false, true, true, false]);
    assert_eq!(places.ask(1, now, idle_since), None, "who has a place asks for none");
    places.lost(tickets[0]);
    assert_eq!(places.ask(1, now, idle_since), None, "all were asked for already");
    assert_eq!(places.let_go(1, Some(2), true), None, "who has asked for it has its place already");
    assert_eq!(places.hold(1, 30, UNUSED), Some(2), "its number is free");
    asked_for.set([false, true, false, false]);
    assert_eq!(places.ask(1, now, idle_since), asked(2, 30, 10));
    places.lost(tickets[0]);
    assert_eq!(places.let_go(1, Some(0), false), Some(10), "nobody has asked for it");
}

#[test]
fn a_connection_that_took_longer_to_make_is_kept_for_longer() {
    let mut places = <Places<1, 1, 1>>::new_zeroed();
    places.hold(1, 20, 2 * UNUSED).expect("there is room");
    places.arrive(1, 10).expect("there is room");
    assert_eq!(places.ask(1, 2 * IDLE_US, |_| Some(1)), None);
    assert_eq!(places.ask(1, 1 + 2 * IDLE_US, |_| Some(1)), Some(Asked { holder: 0, process: 20, to_wake: 10 }));
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

#[test]
fn places_are_passed_on_one_after_the_other() {
    let ms = Duration::from_millis;
    let mut places = Box::new(<Places>::new_zeroed());
    assert!((0..4).all(|_| places.opened(1)));
    // Each place is kept for half a second, so one of the four is passed on every 125 ms.
    let mut passes_on = |now_ms: i64| places.pass_on(1, ms(500), 1000 * now_ms);
    assert!(passes_on(9000) && !passes_on(9000) && !passes_on(9124));
    assert!(passes_on(9125) && !passes_on(9125) && passes_on(9250));
}

#[test]
fn a_service_counts_as_full_for_some_seconds_and_is_forgotten_last_if_it_has_connections() {
    let mut places = Box::new(<Places>::new_zeroed());
    assert!(places.opened(1) && places.opened(1));
    places.refused(1, 5);
    places.failed(1);
    assert_eq!(places.numbers(1), Numbers { connections: 2, refused: 1, failed: 1 });
    assert_eq!(places.demand(1, 4 + FULL_US), Demand::Lately);
    assert_eq!(places.demand(1, 5 + FULL_US), Demand::None);
    for service in 2..=MAX_SERVICES as u64 {
        assert!(places.opened(service));
    }
    assert!(!places.opened(1000), "no entry is free");
    places.closed(1000);
    places.closed(2);
    assert!(places.opened(1000));
    assert_eq!(places.numbers(2), Numbers::default());
    places.closed(1);
    assert_eq!((places.numbers(1).connections, places.services(|key| key == 1)), (1, vec![1]));
}
