//! The hand that reaches into the engine's thread: requests go in through one bounded queue, what
//! came of them comes back through one mailbox.
//!
//! A turn's answers travel together and wake the runtime once, however many there are; the
//! runtime then wakes each caller for itself, which costs no system call.

use super::feed::Feed;
use super::host::Facts;
use super::watches::{Look, Subject};
use crate::api::{Code, Problem};
use crate::engine::{Input, Ticket};
use crate::kernel::event::Actor;
use crate::kernel::ids::{Fence, Millis, Seq, TaskId, WorkerId};
use crate::kernel::rules::Rules;
use crate::kernel::schedule::ScheduleSpec;
use crate::kernel::task::SecretHash;
use crate::kernel::text::Text;
use crate::kernel::{Answer, Command, Rejection};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// The answers to one request, one for each command.
pub(crate) type Answers = Vec<Result<Answer, Rejection>>;

/// Looks at the facts after a turn, and says what to deliver.
pub(crate) type Read = Box<dyn FnOnce(&Facts<'_>) -> Delivery + Send>;

/// Looks at answers and at the facts after their turn, and says what to deliver.
pub(crate) type AnswerLook = Box<dyn FnOnce(&Facts<'_>, Answers) -> Delivery + Send>;

/// How answers become what the caller waits for.
pub(crate) enum Reply {
    /// As they are.
    Plain(oneshot::Sender<Answers>),
    /// With a look at the facts.
    Seen(AnswerLook),
}

/// Something on its way to who waits for it. Nobody may wait any more; that is no error.
pub(crate) enum Delivery {
    /// Plain answers.
    Answers(oneshot::Sender<Answers>, Answers),
    /// Anything else.
    Other(Box<dyn FnOnce() + Send>),
}

impl Delivery {
    fn of<T: Send + 'static>(to: oneshot::Sender<T>, value: T) -> Self {
        Self::Other(Box::new(move || drop(to.send(value))))
    }

    fn hand_over(self) {
        match self {
            Self::Answers(to, answers) => drop(to.send(answers)),
            Self::Other(hand_over) => hand_over(),
        }
    }
}

/// What the engine's thread is told.
pub(crate) enum Message {
    Ask {
        from: Ticket,
        by: Actor,
        commands: Vec<Command>,
        reply: Reply,
    },
    AwaitLease {
        from: Ticket,
        worker: WorkerId,
        secrets: Vec<SecretHash>,
        patience: Millis,
        reply: Reply,
    },
    /// Who waited went away.
    Forget(Ticket),
    /// A look at the facts.
    Read(Read),
    /// A look that is repeated until it finds what it wants.
    Watch {
        from: Ticket,
        on: Subject,
        look: Look,
    },
    /// The config changed.
    Rules {
        rules: Box<Rules>,
        schedules: BTreeMap<Text, ScheduleSpec>,
        snapshot_after: u64,
    },
    /// Somebody follows the events.
    Subscribe {
        from: Option<Seq>,
        to: tokio::sync::mpsc::Sender<Feed>,
    },
    /// Something happened that only the engine needs to know.
    Tell(Box<Input>),
    /// Not everything under that lease could be killed.
    SweepFailed {
        task: TaskId,
        fence: Fence,
    },
    /// The wall clock was put forward or back; the turn that follows sees how far.
    ClockSet,
    /// Close the journal and end.
    Stop,
}

/// The mailbox from the engine's thread to the runtime. It holds at most what was asked for.
#[derive(Default)]
pub(crate) struct Outbox {
    ready: Mutex<Vec<Delivery>>,
    bell: Notify,
}

impl Outbox {
    /// Takes over all deliveries of a turn.
    pub(crate) fn deliver(&self, deliveries: &mut Vec<Delivery>) {
        if deliveries.is_empty() {
            return;
        }
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).append(deliveries);
        self.bell.notify_one();
    }

    /// Hands over what arrives, for ever.
    pub(crate) async fn postman(&self) -> ! {
        let mut bag = Vec::new();
        loop {
            self.bell.notified().await;
            std::mem::swap(
                &mut bag,
                &mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner),
            );
            for delivery in bag.drain(..) {
                delivery.hand_over();
            }
        }
    }
}

/// The way into the engine's thread.
#[derive(Clone)]
pub(crate) struct Hand {
    to: SyncSender<Message>,
    tickets: Arc<AtomicU64>,
}

/// Why the engine's thread does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// It has too much to do, or hangs.
    Late,
    /// It has ended.
    Gone,
}

/// Something that was asked for and is not there yet. Dropping it takes the question back.
pub(crate) struct Pending<T> {
    answer: oneshot::Receiver<T>,
    takes_back: Option<(Hand, Ticket)>,
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Problem>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(context));
        self.takes_back = None;
        Poll::Ready(answer.map_err(|_gone| outcome_unknown()))
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        let Some((hand, ticket)) = self.takes_back.take() else { return };
        if hand.to.try_send(Message::Forget(ticket)).is_err() {
            tracing::debug!("a question whose caller went away stays open");
        }
    }
}

/// Lets every other connection that is ready read its request first: what reaches the engine
/// together shares one sync. Costs one look at the ready connections when nobody else is there.
pub(crate) async fn in_company() {
    tokio::task::yield_now().await;
}

fn outcome_unknown() -> Problem {
    Problem::new(
        Code::OutcomeUnknown,
        "the daemon is going away; whether the request was carried out is not known",
    )
    .with_help("say it again, with the same key where there is one")
}

impl Hand {
    pub(crate) fn new(to: SyncSender<Message>) -> Self {
        Self { to, tickets: Arc::new(AtomicU64::new(1)) }
    }

    fn ticket(&self) -> Ticket {
        Ticket(self.tickets.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends a message without waiting.
    pub(crate) fn send(&self, message: Message) -> Result<(), Problem> {
        self.to.try_send(message).map_err(|refused| match refused {
            TrySendError::Full(_) => Problem::new(Code::Busy, "too many requests are waiting")
                .with_help("try again in a moment"),
            TrySendError::Disconnected(_) => {
                Problem::new(Code::ShuttingDown, "the daemon is shutting down; nothing was done")
            }
        })
    }

    /// Sends a message and waits for room; only for threads of our own.
    pub(crate) fn send_patiently(&self, message: Message) {
        if self.to.send(message).is_err() {
            tracing::debug!("the engine's thread has ended");
        }
    }

    /// Asks for commands to be carried out.
    pub(crate) fn ask(
        &self,
        by: Actor,
        commands: Vec<Command>,
    ) -> Result<Pending<Answers>, Problem> {
        let (to, answer) = oneshot::channel();
        let from = self.ticket();
        self.send(Message::Ask { from, by, commands, reply: Reply::Plain(to) })?;
        Ok(Pending { answer, takes_back: None })
    }

    /// Asks for commands to be carried out, and waits, also for room; only for threads of our own.
    /// None when the engine's thread has ended.
    pub(crate) fn ask_patiently(&self, by: Actor, commands: Vec<Command>) -> Option<Answers> {
        let (to, answers) = sync_channel(1);
        let from = self.ticket();
        let look = move |_facts: &Facts<'_>, answers| {
            Delivery::Other(Box::new(move || drop(to.send(answers))))
        };
        let reply = Reply::Seen(Box::new(look));
        self.send_patiently(Message::Ask { from, by, commands, reply });
        answers.recv().ok()
    }

    /// Looks at the facts, and waits for so long at most; only for threads of our own.
    pub(crate) fn read_within<T: Send + 'static>(
        &self,
        time: Duration,
        look: impl FnOnce(&Facts<'_>) -> T + Send + 'static,
    ) -> Result<T, Silence> {
        let (to, found) = sync_channel(1);
        let read = move |facts: &Facts<'_>| {
            let seen = look(facts);
            Delivery::Other(Box::new(move || drop(to.send(seen))))
        };
        self.send(Message::Read(Box::new(read))).map_err(|problem| match problem.code {
            Code::ShuttingDown => Silence::Gone,
            _ => Silence::Late,
        })?;
        found.recv_timeout(time).map_err(|why| match why {
            RecvTimeoutError::Timeout => Silence::Late,
            RecvTimeoutError::Disconnected => Silence::Gone,
        })
    }

    /// Asks for commands to be carried out, and for a look at what is there afterwards.
    pub(crate) fn ask_and_look<T: Send + 'static>(
        &self,
        by: Actor,
        commands: Vec<Command>,
        look: impl FnOnce(&Facts<'_>, Answers) -> T + Send + 'static,
    ) -> Result<Pending<T>, Problem> {
        let (to, answer) = oneshot::channel();
        let from = self.ticket();
        let reply = Reply::Seen(Box::new(|facts, answers| Delivery::of(to, look(facts, answers))));
        self.send(Message::Ask { from, by, commands, reply })?;
        Ok(Pending { answer, takes_back: None })
    }

    /// Waits for leases. When nobody waits any more the question is taken back.
    pub(crate) fn await_lease<T: Send + 'static>(
        &self,
        worker: WorkerId,
        secrets: Vec<SecretHash>,
        patience: Millis,
        look: impl FnOnce(&Facts<'_>, Answers) -> T + Send + 'static,
    ) -> Result<Pending<T>, Problem> {
        let (to, answer) = oneshot::channel();
        let from = self.ticket();
        let reply = Reply::Seen(Box::new(|facts, answers| Delivery::of(to, look(facts, answers))));
        self.send(Message::AwaitLease { from, worker, secrets, patience, reply })?;
        Ok(Pending { answer, takes_back: Some((self.clone(), from)) })
    }

    /// Looks at the facts.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Facts<'_>) -> T + Send + 'static,
    ) -> Result<Pending<T>, Problem> {
        let (to, answer) = oneshot::channel();
        self.send(Message::Read(Box::new(|facts| Delivery::of(to, look(facts)))))?;
        Ok(Pending { answer, takes_back: None })
    }

    /// Looks at the facts again whenever something happens to the subject, until `look` finds
    /// what it wants.
    pub(crate) fn watch<T: Send + 'static>(
        &self,
        on: Subject,
        mut look: impl FnMut(&Facts<'_>) -> Option<T> + Send + 'static,
    ) -> Result<Pending<T>, Problem> {
        let (to, answer) = oneshot::channel();
        let mut to = Some(to);
        let from = self.ticket();
        let look: Look = Box::new(move |facts| {
            let found = look(facts)?;
            Some(Delivery::of(to.take()?, found))
        });
        self.send(Message::Watch { from, on, look })?;
        Ok(Pending { answer, takes_back: Some((self.clone(), from)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::INPUTS_QUEUED_MAX;

    #[test]
    fn a_full_queue_is_busy_and_nothing_waits() {
        let (to, inbox) = sync_channel(INPUTS_QUEUED_MAX);
        let hand = Hand::new(to);
        let ask = || hand.read(|_| ()).map(drop);
        for _ in 0..INPUTS_QUEUED_MAX {
            ask().unwrap();
        }
        assert_eq!(ask().unwrap_err().code, Code::Busy);
        drop(inbox);
        assert_eq!(ask().unwrap_err().code, Code::ShuttingDown);
    }
}
