//! Chapter 2: four connections of two cells claim tens of thousands of names at the same time.

use super::cast::{CELLS, World};
use super::names::{self, Input};
use super::screen::{Screen, thousands};
use super::tally::Tally;
use crate::batch::Batch;
use crate::cell::Cell;
use crate::failure::{Conflict, Failure};
use anyhow::{Context, Result, anyhow, bail};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const BATCH: usize = 10;
const CONNECTIONS: usize = 2;

/// How many names of the list a cell may be ahead of the other one. They read one list, and a cell that stayed ahead
/// would win all names.
const LEAD: usize = 30;

/// How long a name with a temporary conflict rests before it is tried again.
const REST: Duration = Duration::from_millis(20);

/// The state that the connections of the race share.
struct Track<'a> {
    input: &'a Input,
    /// The position of each cell in its share.
    next: [AtomicUsize; 2],
    /// The corresponding position in the list of all names.
    place: [AtomicUsize; 2],
    won: [AtomicU64; 2],
    conflicts: AtomicU64,
    failed: AtomicBool,
}

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    let input = names::load();
    screen.say(&format!(
        "{} names: {}. Each cell wants its share, and {} of them are wanted by both. Both read the list from top to \
         bottom, side by side, with {} connections each and in batches of {}: begin_update, then \
         commit_update. A name that the other cell has is given up; one that is only held for a moment is \
         tried again.",
        thousands(input.names.len() as u64),
        input.origin,
        thousands(input.contested as u64),
        CONNECTIONS,
        BATCH
    ));
    screen.blank();
    let started = Instant::now();
    let tallies = run(screen, world, &input)?;
    report(screen, world, &input, &tallies, started.elapsed())?;
    let both: Vec<&usize> = input.wanted[0].iter().filter(|i| input.wanted[1].binary_search(i).is_ok()).collect();
    world.contested = both.into_iter().map(|i| input.names[*i].clone()).collect();
    Ok(())
}

/// Runs all connections to the end, and adds up the counts of each cell.
fn run(screen: &mut Screen, world: &World, input: &Input) -> Result<[Tally; 2]> {
    let track = Track {
        input,
        next: Default::default(),
        place: Default::default(),
        won: Default::default(),
        conflicts: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    };
    let track = &track;
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for (side, member) in CELLS.iter().enumerate() {
            for _ in 0..CONNECTIONS {
                let conn = member.connect(&world.server)?;
                workers.push((side, scope.spawn(move || claim_all(track, side, conn))));
            }
        }
        while workers.iter().any(|(_, worker)| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(100));
            screen.progress(&position(track));
        }
        screen.progress_done();
        let mut tallies = [Tally::default(), Tally::default()];
        for (side, worker) in workers {
            let tally = worker.join().map_err(|_| anyhow!("a connection panicked"))??;
            tallies[side] = std::mem::take(&mut tallies[side]).add(&tally);
        }
        Ok(tallies)
    })
}

/// Formats the progress line.
fn position(track: &Track) -> String {
    let won = [0, 1].map(|side| track.won[side].load(Relaxed));
    let total = track.input.names.len() as u64;
    format!(
        "{:>3} %   {} {:>7}   {} {:>7}   conflicts {:>7}",
        (won[0] + won[1]) * 100 / total.max(1),
        CELLS[0].name,
        thousands(won[0]),
        CELLS[1].name,
        thousands(won[1]),
        thousands(track.conflicts.load(Relaxed))
    )
}

/// Runs one connection. An error ends the race for all.
fn claim_all(track: &Track, side: usize, conn: Cell) -> Result<Tally> {
    let tally = claim_share(track, side, conn);
    track.failed.fetch_or(tally.is_err(), Relaxed);
    tally
}

/// Claims new names and rested ones, batch by batch, until none remain.
fn claim_share(track: &Track, side: usize, mut conn: Cell) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut resting: VecDeque<(usize, Instant)> = VecDeque::new();
    let wanted = &track.input.wanted[side];
    while !track.failed.load(Relaxed) {
        let mut batch: Vec<usize> = Vec::with_capacity(BATCH);
        while batch.len() < BATCH && resting.front().is_some_and(|(_, until)| *until <= Instant::now()) {
            batch.extend(resting.pop_front().map(|(index, _)| index));
        }
        let need = BATCH - batch.len();
        let from = track.next[side].fetch_add(need, Relaxed).min(wanted.len());
        batch.extend(&wanted[from..(from + need).min(wanted.len())]);
        keep_pace(track, side, wanted.get(from + need).copied().unwrap_or(usize::MAX));
        if batch.is_empty() {
            match resting.front() {
                None => return Ok(tally),
                Some((_, until)) => thread::sleep(until.saturating_duration_since(Instant::now())),
            }
            continue;
        }
        let later = claim(track, side, &mut conn, batch, &mut tally)?;
        resting.extend(later.into_iter().map(|index| (index, Instant::now() + REST)));
    }
    Ok(tally)
}

/// Waits until the other cell is close behind.
fn keep_pace(track: &Track, side: usize, place: usize) {
    track.place[side].fetch_max(place, Relaxed);
    while !track.failed.load(Relaxed)
        && track.place[1 - side].load(Relaxed).saturating_add(LEAD) < place.min(track.input.names.len())
    {
        thread::sleep(Duration::from_micros(200));
    }
}

/// Claims one batch. Removes names with conflicts until the rest succeeds. Returns the names to try again.
fn claim(track: &Track, side: usize, conn: &mut Cell, names: Vec<usize>, tally: &mut Tally) -> Result<Vec<usize>> {
    let record = |index: &usize| (track.input.names[*index].clone(), *index as i64);
    let mut batch = Batch::create(names.iter().map(record).collect());
    let mut later = Vec::new();
    let mut first = true;
    while !batch.is_empty() {
        let sent = Instant::now();
        let tried = if first { begin(conn, &batch)? } else { conn.try_begin(&batch, None)? };
        tally.slowest = tally.slowest.max(sent.elapsed());
        first = false;
        match tried {
            Ok(lease) => {
                if !conn.commit(lease)? {
                    bail!("a lease that was just begun had been committed before");
                }
                tally.won += batch.creates.len() as u64;
                tally.batches += 1;
                track.won[side].fetch_add(batch.creates.len() as u64, Relaxed);
                break;
            }
            Err(conflicts) => {
                track.conflicts.fetch_add(conflicts.len() as u64, Relaxed);
                let gone = sort_out(&conflicts, tally)?;
                let again = |name: &String| conflicts.iter().any(|c| c.retryable && c.bucket == *name);
                later.extend(names.iter().filter(|i| again(&track.input.names[**i])));
                batch = batch.without(&gone);
            }
        }
    }
    Ok(later)
}

/// Calls `begin_update`, and parses the conflicts in the DETAIL of its error.
fn begin(conn: &mut Cell, batch: &Batch) -> Result<crate::cell::Tried> {
    match conn.begin(batch, None) {
        Ok(lease) => Ok(Ok(lease)),
        Err(Failure::Refused(refusal)) => {
            let conflicts = refusal.conflicts();
            Ok(Err(conflicts.with_context(|| format!("not a conflict: {} {}", refusal.code, refusal.message))?))
        }
        Err(lost) => Err(lost.into()),
    }
}

/// Counts the conflicts. Returns the names to remove.
fn sort_out(conflicts: &[Conflict], tally: &mut Tally) -> Result<Vec<String>> {
    if conflicts.is_empty() {
        bail!("a refused batch without a conflict");
    }
    for conflict in conflicts {
        tally.count(&conflict.reason);
        tally.lost += u64::from(!conflict.retryable);
    }
    Ok(conflicts.iter().map(|c| c.bucket.clone()).collect())
}

fn report(screen: &mut Screen, world: &mut World, input: &Input, tallies: &[Tally; 2], took: Duration) -> Result<()> {
    let won = tallies[0].won + tallies[1].won;
    let slowest = tallies[0].slowest.max(tallies[1].slowest);
    screen.say(&format!(
        "{} claims in {:.1} s: {} claims per second, each begun and committed durably. The slowest begin took \
         {:.0} ms.",
        thousands(won),
        took.as_secs_f64(),
        thousands((won as f64 / took.as_secs_f64()) as u64),
        slowest.as_secs_f64() * 1e3
    ));
    let row = |side: usize| {
        let t = &tallies[side];
        let figures = [input.wanted[side].len() as u64, t.won, t.lost, t.batches];
        [CELLS[side].name.to_string()].into_iter().chain(figures.map(thousands)).collect()
    };
    screen.table(&["cell", "wanted", "won", "lost to the other", "batches"], &[row(0), row(1)]);
    let meaning = [("taken", "given up"), ("leased", "tried again"), ("in_flight", "tried again")];
    let row = |(reason, then): &(&str, &str)| {
        let n = |side: usize| thousands(tallies[side].of(reason));
        vec![reason.to_string(), n(0), n(1), then.to_string()]
    };
    screen.say("Names that met a conflict:");
    screen.table(&["reason", CELLS[0].name, CELLS[1].name, "and then"], &meaning.iter().map(row).collect::<Vec<_>>());

    let total = input.names.len() as u64;
    let kept = world.count("SELECT count(*) FROM claims.claims WHERE status = 1")?;
    let distinct = world.count("SELECT count(DISTINCT (bucket_type, bucket_value)) FROM claims.claims")?;
    screen.expect(won == total && kept == total && distinct == total, "every name was claimed, and none twice");
    for (side, member) in CELLS.iter().enumerate() {
        let owned = world.count(&format!("SELECT count(*) FROM claims.claims WHERE creator_id = {}", member.id))?;
        screen.expect(owned == tallies[side].won, &format!("{} owns what it was told that it won", member.name));
    }
    let lost = tallies[0].lost + tallies[1].lost;
    screen.expect(lost == input.contested as u64, "every contested name was won by one cell and lost by the other");
    Ok(())
}
