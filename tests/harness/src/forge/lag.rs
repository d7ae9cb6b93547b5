//! Measures all the time how late this machine is. On a busy machine nothing is punctual.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const BEAT: Duration = Duration::from_millis(10);
/// The number of remembered beats, which is some minutes.
const REMEMBERED: usize = 20_000;

/// A metronome. Its thread ends with the program.
#[derive(Clone, Default)]
pub struct Lag(Arc<Mutex<VecDeque<(Instant, Duration)>>>);

impl Lag {
    pub fn start() -> Lag {
        let lag = Lag::default();
        let beats = lag.clone();
        thread::spawn(move || {
            loop {
                let began = Instant::now();
                thread::sleep(BEAT);
                beats.add(began.elapsed().saturating_sub(BEAT));
            }
        });
        lag
    }

    fn add(&self, late: Duration) {
        let mut beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if beats.len() == REMEMBERED {
            beats.pop_front();
        }
        beats.push_back((Instant::now(), late));
    }

    /// Returns the latest beat since then.
    pub fn since(&self, then: Instant) -> Duration {
        let beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = beats.iter().rev().take_while(|(at, _)| *at >= then);
        recent.map(|(_, late)| *late).max().unwrap_or_default()
    }
}
