//! The errors of `claims`. Only this module contains SQLSTATEs, messages, DETAIL and HINT.

mod access;
mod admin;
mod admin_action;
mod admission;
mod availability;
mod bad_input;
mod capture;
mod cell;
mod claims_error;
mod declare;
mod direct_call;
mod distribution;
mod feed;
mod hold;
mod ids;
mod import;
mod names;
mod refused_save;
mod remote;
mod text;
mod transfer;
mod verification;
mod warnings;
mod worker;
pub use access::AccessError;
pub use admin::AdminError;
pub use admin_action::log_admin_action;
pub use admission::AdmissionError;
pub use availability::AvailabilityError;
pub use capture::{
    CaptureError, Excess, notice_of_changed_declaration, warn_of_mutable_condition, warn_of_no_unique_index,
    warn_of_slow_search,
};
pub use cell::CellError;
pub use claims_error::{ClaimsError, or_raise, raise, raise_altered, raise_updated};
pub use direct_call::{refuse_direct_call_of_event_trigger, refuse_direct_call_of_trigger};
pub use distribution::DistributionError;
pub use feed::FeedError;
pub use hold::HoldError;
pub use ids::IdsError;
pub use import::{ImportError, ImportProgress, notice_of_import};
pub use names::NamesError;
pub use refused_save::{ClaimedTwice, RefusedSave};
pub use transfer::TransferError;
pub use verification::{VerificationError, warn_of_lost_range, warn_of_rows};
pub use warnings::{
    notice_of_altered_table, notice_of_distributing, notice_of_enforcing, notice_of_fence, notice_of_look_alikes,
    notice_of_own_wrapper, notice_of_unfinished_cell, warn_of_failures, warn_of_open_cell, warn_of_orphans,
};
pub use worker::{
    Failure, Hindrance, log_ended_feed_holder, log_failed_pass, log_forgotten_service, log_updated, log_waiting,
    warn_of_no_slot_for_service, warn_of_no_slot_for_worker,
};
