//! The effect of each action.

use claims_model::conflict::{ExistingClaim, reason_for};
use claims_model::quarantine::{Asking, KeptBack, KeptName, Reclaim};
use claims_model::{NOBODY, Op, Reference};

use super::state::{CUSTOMER, Lease, NAMES, NEW, OLD, Person, Row, Stage, Truth, World};
use super::{Action, Broken, MOVED_PERSON, MOVES, Quarantine, STAYS};

/// The time at which everything happens. A name whose time is over became available then.
const NOW: i64 = 10;

impl Quarantine {
    /// Applies an action. Returns `None` if it is impossible or changes nothing.
    pub fn apply(&self, before: &World, action: Action) -> Option<World> {
        let mut after = before.clone();
        let possible = match action {
            Action::Look(lease) => self.look(&mut after, lease),
            Action::Take(lease) => self.take(&mut after, lease),
            Action::Commit(lease) => self.commit(&mut after, lease),
            Action::RollBack(lease) => self.roll_back(&mut after, lease),
            Action::EndOfTime(name) => end_of_time(&mut after, name),
            Action::SeeOver(name) => {
                after.seen_over = Some(name);
                matches!(before.rows[name], Row::KeptBack { is_over: true, .. })
            }
            Action::Purge => self.purge(&mut after),
            Action::Release(name) => release(&mut after, name),
            Action::HandOver(name) => self.hand_over(&mut after, name),
            Action::BeginTransfer => {
                after.stage = Stage::Preparing;
                before.stage == Stage::None
            }
            Action::Mark(name) => {
                after.rows[name] = Row::Transferring;
                before.stage == Stage::Preparing && before.rows[name] == (Row::Active { owner: MOVES })
            }
            Action::EndPass => self.end_pass(&mut after),
            Action::Switch => switch(&mut after),
            Action::Move(name) => {
                after.rows[name] = Row::Active { owner: MOVED_PERSON };
                before.stage == Stage::Switched && before.rows[name] == Row::Transferring
            }
            Action::MoveRight(name) => move_right(&mut after, name),
            Action::Finish => self.finish(&mut after),
            Action::ChangeProfile => self.change_profile(&mut after),
        };
        (possible && after != *before).then_some(after)
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// Looks at the row of a name that a lease is to create.
    fn look(&self, state: &mut World, lease: usize) -> bool {
        let wish = self.wishes[lease];
        let row = state.rows[state.name(wish.name)];
        let is_new = state.leases[lease] == Lease::New && wish.creates;
        state.leases[lease] = Lease::Seen { reclaims: matches!(row, Row::KeptBack { .. }) };
        is_new && reason_for(Op::Create, number(wish.person.cell), self.existing(row, wish.person)).is_none()
    }

    /// Returns the row as the conflicts of a create by a person see it.
    fn existing(&self, row: Row, asks: Person) -> Option<ExistingClaim> {
        let claim = |holder: i64, active: bool, kept: Option<KeptName>| {
            Some(ExistingClaim { holder_cell_id: holder, active, is_meant: true, in_transfer: false, kept })
        };
        match row {
            Row::Free => None,
            Row::Active { owner } => claim(number(owner.cell), true, None),
            Row::Creating { lease } | Row::Destroying { lease } => {
                claim(number(self.wishes[lease].person.cell), false, None)
            }
            Row::Transferring => claim(number(OLD), false, None),
            Row::KeptBack { by, is_over } => claim(NOBODY, false, Some(kept(by, is_over, None, asks))),
            Row::Reclaiming { lease, by, is_over } => {
                let cell = self.wishes[lease].person.cell;
                claim(NOBODY, false, Some(kept(by, is_over, Some(cell), asks)))
            }
        }
    }

    /// Takes the name, under the conditions that the statement has. If they do not hold, the begin looks again.
    fn take(&self, state: &mut World, lease: usize) -> bool {
        let wish = self.wishes[lease];
        let name = state.name(wish.name);
        let held = match (state.leases[lease], state.rows[name]) {
            (Lease::New, Row::Active { owner }) if !wish.creates && owner == wish.person => {
                Some(Row::Destroying { lease })
            }
            (Lease::Seen { reclaims: false }, Row::Free) => Some(Row::Creating { lease }),
            (Lease::Seen { reclaims: true }, Row::KeptBack { by, is_over }) => {
                let may = kept(by, is_over, None, wish.person).may_be_had || self.is(Broken::ReclaimUnchecked);
                may.then_some(Row::Reclaiming { lease, by, is_over })
            }
            (Lease::Seen { .. }, _) => None,
            _ => return false,
        };
        let Some(held) = held else {
            state.leases[lease] = Lease::New;
            return true;
        };
        if let Truth::GivenUp(person) = state.truth[name] {
            let has_moved = state.stage == Stage::Switched && person == MOVED_PERSON && wish.person == MOVES;
            state.stranger |= person != wish.person && !has_moved;
        }
        state.rows[name] = held;
        state.leases[lease] = Lease::Outstanding;
        true
    }

    fn commit(&self, state: &mut World, lease: usize) -> bool {
        let wish = self.wishes[lease];
        let name = state.name(wish.name);
        if state.leases[lease] != Lease::Outstanding {
            return false;
        }
        state.leases[lease] = Lease::Ended;
        state.rows[name] = match state.rows[name] {
            Row::Creating { lease: of } | Row::Reclaiming { lease: of, .. } if of == lease => {
                state.two_owners |= matches!(state.truth[name], Truth::Owned(_));
                state.truth[name] = Truth::Owned(wish.person);
                Row::Active { owner: wish.person }
            }
            Row::Destroying { lease: of } if of == lease => {
                state.truth[name] = Truth::GivenUp(wish.person);
                match self.is(Broken::CommitFrees) {
                    true => Row::Free,
                    false => Row::KeptBack { by: wish.person, is_over: false },
                }
            }
            row => {
                state.damaged = true;
                row
            }
        };
        true
    }

    fn roll_back(&self, state: &mut World, lease: usize) -> bool {
        let wish = self.wishes[lease];
        let name = state.name(wish.name);
        if state.leases[lease] != Lease::Outstanding {
            return false;
        }
        state.leases[lease] = Lease::Ended;
        state.rows[name] = match state.rows[name] {
            Row::Creating { lease: of } if of == lease => Row::Free,
            Row::Reclaiming { lease: of, .. } if of == lease && self.is(Broken::RollbackFrees) => Row::Free,
            Row::Reclaiming { lease: of, by, is_over } if of == lease => Row::KeptBack { by, is_over },
            Row::Destroying { lease: of } if of == lease => Row::Active { owner: wish.person },
            row => {
                state.damaged = true;
                row
            }
        };
        true
    }

    fn purge(&self, state: &mut World) -> bool {
        let Some(name) = state.seen_over.take() else { return false };
        let is_over = match state.rows[name] {
            Row::KeptBack { is_over, .. } => is_over,
            Row::Reclaiming { is_over, .. } => is_over && self.is(Broken::PurgeOfReclaimed),
            _ => false,
        };
        if is_over || self.is(Broken::PurgeUnchecked) {
            state.rows[name] = Row::Free;
        }
        true
    }

    fn hand_over(&self, state: &mut World, spelling: usize) -> bool {
        let name = state.name(spelling);
        let is_held = !matches!(state.rows[name], Row::Free | Row::Active { .. } | Row::KeptBack { .. });
        let owner = STAYS;
        state.rows[name] = Row::Active { owner };
        state.truth[name] = Truth::Owned(owner);
        !is_held || self.is(Broken::HandOverOfLeased)
    }

    fn end_pass(&self, state: &mut World) -> bool {
        let is_of_customer = |lease: &usize| self.wishes[*lease].person == MOVES;
        let is_left = |row: &Row| match row {
            Row::Active { owner } => *owner == MOVES,
            Row::Creating { lease } | Row::Destroying { lease } => is_of_customer(lease),
            Row::Reclaiming { lease, .. } => is_of_customer(lease) && !self.is(Broken::ReclaimsMissed),
            Row::Free | Row::Transferring | Row::KeptBack { .. } => false,
        };
        let possible = state.stage == Stage::Preparing && !state.rows.iter().any(is_left);
        let outstanding = |lease: &usize| state.leases[*lease] == Lease::Outstanding;
        state.left_behind |= (0..state.leases.len()).filter(is_of_customer).any(|lease| outstanding(&lease));
        state.stage = Stage::Prepared;
        possible
    }

    fn finish(&self, state: &mut World) -> bool {
        let is_left = |row: &Row| match row {
            Row::Transferring => true,
            Row::KeptBack { by, .. } | Row::Reclaiming { by, .. } => *by == MOVES && !self.is(Broken::RightStays),
            _ => false,
        };
        let possible = state.stage == Stage::Switched && !state.rows.iter().any(is_left);
        state.stage = Stage::Finished;
        possible
    }

    /// Changes the profile: the two spellings become one name. It waits for begins that have looked, and for leases.
    fn change_profile(&self, state: &mut World) -> bool {
        let is_beginning = state.leases.iter().any(|lease| matches!(lease, Lease::Seen { .. }));
        let is_held = |row: &Row| match row {
            Row::Creating { .. } | Row::Destroying { .. } | Row::Transferring => true,
            Row::Reclaiming { .. } => !self.is(Broken::ProfileOfReclaimed),
            Row::Free | Row::Active { .. } | Row::KeptBack { .. } => false,
        };
        let possible = !state.is_folded && !is_beginning && !state.rows.iter().any(is_held);
        let over =
            |row: Row| matches!(row, Row::KeptBack { is_over: true, .. } | Row::Reclaiming { is_over: true, .. });
        let [first, second] = state.rows.map(|row| if over(row) { Row::Free } else { row });
        let is_ignored = self.is(Broken::ProfileForgets) && matches!(first, Row::KeptBack { .. });
        let (row, collides) = match (first, second) {
            (first, Row::Free) => (first, false),
            (Row::Free, second) => (second, false),
            (_, second) => (second, !is_ignored),
        };
        if state.truth[0] == Truth::Free {
            state.truth[0] = state.truth[1];
        }
        (state.rows, state.truth[1]) = ([row, Row::Free], Truth::Free);
        (state.is_folded, state.seen_over) = (true, None);
        possible && !collides
    }
}

/// Returns a name that is kept back as a create by a person finds it.
fn kept(by: Person, is_over: bool, reclaiming: Option<usize>, asks: Person) -> KeptName {
    let subject = |person: Person| Reference { type_id: 4, id: person.subject.to_string().into() };
    let name = KeptBack {
        given_up_by: number(by.cell),
        available_at_us: if is_over { NOW } else { NOW + 1 },
        reclaiming_cell: reclaiming.map(number),
    };
    let (former, subject) = (subject(by), subject(asks));
    let asking = Asking { cell_id: number(asks.cell), subject: &subject, reclaim: Reclaim::Subject, now_us: NOW };
    name.for_create(&former, &asking)
}

fn number(cell: usize) -> i64 {
    cell as i64 + 1
}

fn end_of_time(state: &mut World, name: usize) -> bool {
    let possible = matches!(state.truth[name], Truth::GivenUp(_));
    state.truth[name] = Truth::Free;
    if let Row::KeptBack { is_over, .. } | Row::Reclaiming { is_over, .. } = &mut state.rows[name] {
        *is_over = true;
    }
    possible
}

fn release(state: &mut World, name: usize) -> bool {
    let possible = matches!(state.truth[name], Truth::GivenUp(_));
    state.truth[name] = Truth::Free;
    match &mut state.rows[name] {
        row @ Row::KeptBack { .. } => *row = Row::Free,
        // The lease goes on. Rolled back, it leaves a name whose time is over.
        Row::Reclaiming { is_over, .. } => *is_over = true,
        _ => return false,
    }
    possible
}

/// Switches: from now on the customer is in the new cell, with all that it has and has had.
fn switch(state: &mut World) -> bool {
    let possible = state.stage == Stage::Prepared;
    state.stage = Stage::Switched;
    for name in 0..NAMES {
        state.truth[name] = match (state.truth[name], state.rows[name]) {
            (Truth::Owned(MOVES), Row::Transferring) => Truth::Owned(MOVED_PERSON),
            (Truth::GivenUp(MOVES), _) => Truth::GivenUp(MOVED_PERSON),
            (truth, _) => truth,
        };
    }
    possible
}

fn move_right(state: &mut World, name: usize) -> bool {
    let possible = state.stage == Stage::Switched;
    match &mut state.rows[name] {
        Row::KeptBack { by, .. } | Row::Reclaiming { by, .. } if *by == MOVES => {
            *by = Person { cell: NEW, subject: CUSTOMER };
        }
        _ => return false,
    }
    // The customer has given it up in the old cell after the switch.
    if state.truth[name] == Truth::GivenUp(MOVES) {
        state.truth[name] = Truth::GivenUp(MOVED_PERSON);
    }
    possible
}
