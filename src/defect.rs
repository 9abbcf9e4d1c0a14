//! Known mistakes that can be built in on purpose, to test the tests.
//!
//! Each is one line at its place in the real code. They exist only in a build with
//! `--cfg seeded_defects`, which `tools/proof.sh defects` makes; there the variable
//! `MIDWATCH_DEFECT` chooses one by its word. In every other build [`Defect::is_on`] is the
//! constant `false`, and nothing of this is left.

/// Writes each mistake once, with its word.
macro_rules! defects {
    ($($(#[$doc:meta])* $name:ident $word:literal),* $(,)?) => {
        /// A mistake that somebody made before, here or elsewhere.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Defect { $($(#[$doc])* $name),* }

        impl Defect {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word that chooses it.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }
        }
    };
}

defects! {
    /// A commit is acknowledged without a sync.
    AckBeforeSync "ack_before_sync",
    /// A new segment's name is not made durable.
    NoDirSync "no_dir_sync",
    /// A sync that failed is tried again, and believed.
    RetryFailedSync "retry_failed_sync",
    /// A start goes on writing in the segment that the last process left.
    AppendToDirtyTail "append_to_dirty_tail",
    /// A read that fails is taken for the end of the file.
    EioAsEnd "eio_as_end",
    /// A short write is taken for a whole one.
    ShortWriteIsDone "short_write_is_done",
    /// The length in a frame's header is believed before its checksum holds.
    TrustLength "trust_length",
    /// A snapshot is used as far as it can be read.
    TrustSnapshot "trust_snapshot",
    /// The floor is not looked at.
    ForgetFloor "forget_floor",
    /// Old segments are removed before the snapshot that replaces them is durable.
    DeleteBeforeDurable "delete_before_durable",
    /// Segments go that the older of the two snapshots still needs.
    DeleteTooMuch "delete_too_much",
    /// Only the newest segment is read at a start.
    ReplayNewestOnly "replay_newest_only",
    /// Sequence numbers do not skip ahead after an end that may have lost some.
    NoSkipAhead "no_skip_ahead",
    /// Task ids do not skip ahead after such an end.
    ReuseTaskIds "reuse_task_ids",
    /// A record of an unknown kind is passed over though it must not be.
    SkipUnknownKind "skip_unknown_kind",
    /// Answers and events leave one turn before their frame is written.
    PublishBeforeCommit "publish_before_commit",
    /// Each event of a step gets a frame of its own.
    SplitStep "split_step",
    /// A lease that is over is given to the next without a sweep.
    LeaseBeforeSweep "lease_before_sweep",
    /// A stale token is as good as a valid one.
    AcceptStaleToken "accept_stale_token",
    /// The next token follows the highest one in use, not the highest one ever given.
    ReuseTokens "reuse_tokens",
    /// A start forgets how often a task has failed.
    ResetRetries "reset_retries",
    /// A task may fail once more than it may.
    RetryOnceMore "retry_once_more",
    /// Leases that would have ended while the engine was away are taken back at its start.
    ExpireInAbsence "expire_in_absence",
    /// A snapshot forgets the checkpoints.
    ForgetCheckpoint "forget_checkpoint",
    /// A start forgets which types were paused, and their bounds.
    ForgetLimits "forget_limits",
    /// A submission's key is not looked up.
    IgnoreKey "ignore_key",
}

impl Defect {
    /// Whether this build makes this mistake.
    #[cfg(not(seeded_defects))]
    pub const fn is_on(self) -> bool {
        let _ = self;
        false
    }

    /// Whether this build makes this mistake.
    #[cfg(seeded_defects)]
    pub fn is_on(self) -> bool {
        Self::chosen() == Some(self)
    }

    /// The mistake that this build makes.
    #[cfg(not(seeded_defects))]
    pub const fn chosen() -> Option<Self> {
        None
    }

    /// The mistake that this build makes.
    #[cfg(seeded_defects)]
    #[expect(clippy::disallowed_methods, clippy::panic, reason = "only ever in a build for tests")]
    pub fn chosen() -> Option<Self> {
        static CHOSEN: std::sync::OnceLock<Option<Defect>> = std::sync::OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let word = std::env::var("MIDWATCH_DEFECT").ok()?;
            let found = Self::ALL.iter().copied().find(|defect| defect.word() == word);
            Some(found.unwrap_or_else(|| panic!("no defect is called `{word}`")))
        })
    }
}
