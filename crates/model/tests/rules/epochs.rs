//! Two databases that act as one cell, one of them a copy of the other. The model checks every interleaving of their
//! passes, saves, crashes and the copy.

use claims_model::epoch::{Acting, Epoch, Presentation, PresentationAnswer, StoredEpoch, is_followed};
use claims_model::place::Place;
use stateright::{Checker, Model, Property};

/// A fault that the model puts into the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BrokenEpochs {
    /// The new epoch is presented before it is committed.
    PresentedFirst,
    /// Epochs that an earlier pass may have left open are not presented before a new epoch is made.
    NotResolved,
    /// A refused pass does not check whether its own database has a newer epoch.
    NotTriedAgain,
    /// The service accepts every epoch.
    EverythingTaken,
    /// A refused save does not check whether its own database has a newer epoch.
    SaveNotTriedAgain,
    /// Saves present nothing.
    SavesUnchecked,
    /// A copy need not wait until the acting database is silent.
    NotWaited,
    /// A place may take over with an epoch that was made before, which the other database has, too.
    TakenOverUnchanged,
    /// Saves present no place.
    SavesAnywhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum EpochStep {
    /// Has read this pair, and presents it to resolve an earlier pass.
    Resolves(Option<StoredEpoch>),
    /// Commits a new epoch after this one.
    Commits(Option<StoredEpoch>),
    /// Presents the committed pair.
    Presents(StoredEpoch),
    /// Decides about leases.
    Decides,
}

/// A database, and the passes that run in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Database {
    stored: Option<StoredEpoch>,
    passes: Vec<Option<EpochStep>>,
    /// The pair that a save on its way to the service presents.
    save: Option<Option<StoredEpoch>>,
    /// The number of passes that decided after the copy was made.
    decided_since_copy: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    service: Option<Acting>,
    /// The acting database was silent for a while.
    is_silent: bool,
    databases: Vec<Database>,
    next: Epoch,
    /// The number of passes that may still begin.
    passes_left: u8,
    /// The number of saves that may still begin.
    saves_left: u8,
    /// A pass or save was refused although there is only one database.
    locked_out: bool,
    /// Both databases have decided since the copy was made.
    both_decided: bool,
    /// A save was accepted after the other database had decided since the copy was made.
    saved_beside: bool,
    /// A database has taken over, or saved, although the acting one was not silent.
    has_pushed_in: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EpochAction {
    Begin(usize, usize),
    Advance(usize, usize),
    /// The process of a pass dies. Committed epochs stay.
    Crash(usize, usize),
    /// A save of a database reads its epoch, and then arrives at the service.
    Save(usize),
    SaveArrives(usize),
    /// A copy of the committed state is made.
    Copy,
    /// The acting database is silent for a while.
    Silence,
}

fn place(database: usize) -> Place {
    Place::new("server/database", &database.to_string(), 1)
}

struct Epochs {
    passes_at_once: usize,
    copies: bool,
    broken: Option<BrokenEpochs>,
}

impl Epochs {
    fn refused(&self, state: &mut State, database: usize, pass: usize, presented: Option<StoredEpoch>) {
        let stored = state.databases[database].stored;
        // A pass that presented an uncommitted epoch has no committed one to compare.
        let checks_again = !matches!(self.broken, Some(BrokenEpochs::NotTriedAgain | BrokenEpochs::PresentedFirst));
        let moved_on = checks_again && stored != presented;
        state.databases[database].passes[pass] = if moved_on { Some(EpochStep::Resolves(stored)) } else { None };
        state.locked_out |= !moved_on && state.databases.len() == 1;
    }

    /// A save arrives at the service, which changes nothing about the epochs.
    fn save(&self, state: &mut State, index: usize, presented: Option<StoredEpoch>) {
        let is_unchecked = matches!(self.broken, Some(BrokenEpochs::SavesUnchecked | BrokenEpochs::EverythingTaken));
        let database = &mut state.databases[index];
        let own = if self.broken == Some(BrokenEpochs::SavesAnywhere) { None } else { Some(place(index).id) };
        let acting = state.service.map(|acting| (acting.epoch, acting.place.map(|place| place.id)));
        if is_unchecked || is_followed(presented, own, acting) {
            database.save = None;
            let acts = state.service.is_none_or(|acting| acting.place == Some(place(index)));
            state.has_pushed_in |= !acts;
            state.is_silent &= !acts;
            state.saved_beside |=
                state.databases.iter().enumerate().any(|(other, of)| other != index && of.decided_since_copy);
        } else if database.stored != presented && self.broken != Some(BrokenEpochs::SaveNotTriedAgain) {
            database.save = Some(database.stored);
        } else {
            database.save = None;
            state.locked_out |= state.databases.len() == 1;
        }
    }

    fn present(&self, state: &mut State, database: usize, stored: StoredEpoch, is_new: bool) -> bool {
        let own = Some(place(database));
        let is_new = is_new || self.broken == Some(BrokenEpochs::TakenOverUnchanged);
        let is_silent = state.is_silent || self.broken == Some(BrokenEpochs::NotWaited);
        let presentation = Presentation { stored, place: own, is_new };
        let verdict = match presentation.judge(state.service, is_silent) {
            _ if self.broken == Some(BrokenEpochs::EverythingTaken) => PresentationAnswer::Acts,
            verdict => verdict,
        };
        match verdict {
            PresentationAnswer::Acts => {
                let is_other = state.service.is_some_and(|acting| acting.place != own);
                state.has_pushed_in |= is_other && !state.is_silent;
                state.service = Some(Acting { epoch: stored.epoch, place: own });
                state.is_silent = false;
                true
            }
            PresentationAnswer::MayTakeOver => {
                state.service = state.service.map(|acting| Acting { epoch: stored.epoch, ..acting });
                true
            }
            PresentationAnswer::AnotherEpoch | PresentationAnswer::AnotherPlace(_) => false,
        }
    }

    fn advance(&self, state: &mut State, database: usize, pass: usize, step: EpochStep) {
        let next = match step {
            EpochStep::Resolves(None) => EpochStep::Commits(None),
            EpochStep::Resolves(Some(stored)) if self.broken == Some(BrokenEpochs::NotResolved) => {
                EpochStep::Commits(Some(stored))
            }
            EpochStep::Resolves(Some(stored)) => match self.present(state, database, stored, false) {
                true => EpochStep::Commits(Some(stored)),
                false => return self.refused(state, database, pass, Some(stored)),
            },
            EpochStep::Commits(before) => {
                let epoch = state.next;
                state.next += 1;
                let new = StoredEpoch::followed_by(before, epoch);
                if self.broken == Some(BrokenEpochs::PresentedFirst) {
                    EpochStep::Presents(new)
                } else {
                    // If another pass committed first, its epoch is presented.
                    if state.databases[database].stored == before {
                        state.databases[database].stored = Some(new);
                    }
                    EpochStep::Presents(state.databases[database].stored.unwrap_or(new))
                }
            }
            EpochStep::Presents(stored) => match self.present(state, database, stored, true) {
                true => EpochStep::Decides,
                false => return self.refused(state, database, pass, Some(stored)),
            },
            EpochStep::Decides => {
                if state.databases.len() > 1 {
                    state.databases[database].decided_since_copy = true;
                    state.both_decided |= state.databases.iter().all(|database| database.decided_since_copy);
                }
                if self.broken == Some(BrokenEpochs::PresentedFirst) {
                    state.databases[database].stored =
                        state.service.map(|acting| StoredEpoch { epoch: acting.epoch, predecessor: None });
                }
                state.databases[database].passes[pass] = None;
                return;
            }
        };
        state.databases[database].passes[pass] = Some(next);
    }
}

impl Model for Epochs {
    type State = State;
    type Action = EpochAction;

    fn init_states(&self) -> Vec<State> {
        let database = Database { passes: vec![None; self.passes_at_once], ..Database::default() };
        let passes_left = if self.copies { 5 } else { 4 };
        vec![State {
            service: None,
            is_silent: false,
            databases: vec![database],
            next: 1,
            passes_left,
            saves_left: 2,
            locked_out: false,
            both_decided: false,
            saved_beside: false,
            has_pushed_in: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<EpochAction>) {
        for (database, of) in state.databases.iter().enumerate() {
            match of.save {
                Some(_) => actions.push(EpochAction::SaveArrives(database)),
                None if state.saves_left > 0 => actions.push(EpochAction::Save(database)),
                None => {}
            }
            for (pass, step) in of.passes.iter().enumerate() {
                match step {
                    None if state.passes_left > 0 => actions.push(EpochAction::Begin(database, pass)),
                    None => {}
                    Some(_) => {
                        actions.extend([EpochAction::Advance(database, pass), EpochAction::Crash(database, pass)])
                    }
                }
            }
        }
        // A pass that has already committed its epoch is from before the copy, so the copy has that epoch, too.
        let has_committed =
            |step: &Option<EpochStep>| matches!(step, Some(EpochStep::Presents(_) | EpochStep::Decides));
        if self.copies && state.databases.len() == 1 && !state.databases[0].passes.iter().any(has_committed) {
            actions.push(EpochAction::Copy);
        }
        if state.databases.len() > 1 && !state.is_silent {
            actions.push(EpochAction::Silence);
        }
    }

    fn next_state(&self, last: &State, action: EpochAction) -> Option<State> {
        let mut state = last.clone();
        match action {
            EpochAction::Begin(database, pass) => {
                state.passes_left -= 1;
                state.databases[database].passes[pass] = Some(EpochStep::Resolves(state.databases[database].stored));
            }
            EpochAction::Advance(database, pass) => {
                let step = state.databases[database].passes[pass]?;
                self.advance(&mut state, database, pass, step);
            }
            EpochAction::Crash(database, pass) => state.databases[database].passes[pass] = None,
            EpochAction::Save(database) => {
                state.saves_left -= 1;
                state.databases[database].save = Some(state.databases[database].stored);
            }
            EpochAction::SaveArrives(database) => {
                let presented = state.databases[database].save?;
                self.save(&mut state, database, presented);
            }
            EpochAction::Silence => state.is_silent = true,
            EpochAction::Copy => {
                let stored = state.databases[0].stored;
                let passes = vec![None; self.passes_at_once];
                state.databases.push(Database { stored, passes, save: None, decided_since_copy: false });
            }
        }
        Some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.next < 12
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a database alone is never refused", |_, state: &State| !state.locked_out),
            Property::always("of two only one decides", |model: &Epochs, state: &State| {
                !model.copies || !state.both_decided
            }),
            Property::always("no database saves beside the one that decides", |_, state: &State| !state.saved_beside),
            Property::always("nobody takes the place of one that acts", |model: &Epochs, state: &State| {
                !model.copies || !state.has_pushed_in
            }),
            Property::sometimes("something is decided", |model: &Epochs, state: &State| {
                model.copies || state.service.is_some_and(|acting| acting.epoch >= 3)
            }),
        ]
    }
}

fn check(passes_at_once: usize, copies: bool, broken: Option<BrokenEpochs>) -> Vec<&'static str> {
    let checker = Epochs { passes_at_once, copies, broken }.checker().spawn_bfs().join();
    assert!(checker.unique_state_count() > 10);
    let failed = [
        "a database alone is never refused",
        "of two only one decides",
        "no database saves beside the one that decides",
        "nobody takes the place of one that acts",
    ];
    failed.into_iter().filter(|name| checker.discovery(name).is_some()).collect()
}

#[test]
fn a_crash_anywhere_locks_nobody_out_and_passes_at_once_do_no_harm() {
    assert_eq!(check(2, false, None), Vec::<&str>::new());
}

#[test]
fn of_a_database_and_its_copy_one_decides() {
    assert_eq!(check(1, true, None), Vec::<&str>::new());
}

#[test]
fn every_part_of_it_is_needed() {
    let alone = vec!["a database alone is never refused"];
    assert_eq!(check(1, false, Some(BrokenEpochs::PresentedFirst)), alone);
    assert_eq!(check(1, false, Some(BrokenEpochs::NotResolved)), alone);
    assert_eq!(check(2, false, Some(BrokenEpochs::NotTriedAgain)), alone);
    assert_eq!(check(1, false, Some(BrokenEpochs::SaveNotTriedAgain)), alone);
    let saves = "no database saves beside the one that decides";
    let in_its_place = "nobody takes the place of one that acts";
    assert_eq!(check(1, true, Some(BrokenEpochs::SavesUnchecked)), vec![saves, in_its_place]);
    assert_eq!(check(1, true, Some(BrokenEpochs::SavesAnywhere)), vec![in_its_place]);
    assert_eq!(check(1, true, Some(BrokenEpochs::NotWaited)), vec![in_its_place]);
    assert_eq!(check(1, true, Some(BrokenEpochs::TakenOverUnchanged)), vec![in_its_place]);
    let both = "of two only one decides";
    assert_eq!(check(1, true, Some(BrokenEpochs::EverythingTaken)), vec![both, saves, in_its_place]);
}
