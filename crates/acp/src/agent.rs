//! The agent of one connection: takes the editor's messages and carries them out.
//!
//! Each request is a task of its own, so that a long one delays no other and an answer of the editor can come
//! meanwhile. A task that fails or panics is answered with an error, and the connection goes on.

use std::io::{self, BufRead, Write};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use herma_gateway::{Gateway, Origin, Sessions};
use herma_model::{CreatorKind, Principal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::editor::Editor;
use crate::error::{bad_params, defect, overloaded, request_cancelled, unknown_method};
use crate::in_flight::{InFlight, Place};
use crate::known::Opening;
use crate::lines::{self, Input, LONGEST_LINE, Output};
use crate::message::{Message, NoMessage, invalid_request};
use crate::news::News;
use crate::parked::OpenQuestions;
use crate::schema::{
    AuthenticateResponse, CancelNotification, CancelRequestNotification, Error, RequestId, SessionId, SessionUpdate,
    method,
};
use crate::session::OpenSessions;

/// The origin that is stored with conversations of editors.
pub(crate) const ORIGIN: Origin = Origin { creator: CreatorKind::Acp, source: "acp" };

/// Most requests that are not answered at the same time.
const MOST_IN_FLIGHT: usize = 256;
/// At the end: how long requests without a turn get to be answered, and how long the last lines get to be written.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// What the agent has to know of its process.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The version of Herma.
    pub version: &'static str,
    /// The directory in which the agent was started.
    pub cwd: PathBuf,
}

/// The streams of a connection.
pub struct Streams<I, O> {
    /// What the editor writes.
    pub input: I,
    /// What the editor reads.
    pub output: O,
    /// Whether the editor has closed the input, although not all of it is read.
    pub is_input_closed: fn() -> bool,
}

/// The agent of one connection.
pub(crate) struct Agent {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) principal: Principal,
    pub(crate) settings: AgentSettings,
    pub(crate) editor: Editor,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) open: OpenSessions,
    pub(crate) news: Arc<News>,
    /// Work that no request waits for.
    background: Mutex<JoinSet<()>>,
}

/// The answer to a request, and the updates that come after it.
pub(crate) struct Answered {
    result: Box<RawValue>,
    then: Vec<(SessionId, SessionUpdate)>,
    /// What is asked again after it.
    questions: Option<OpenQuestions>,
    /// The session that it opens. The editor gets news of it after the answer.
    opens: Option<Opening>,
}

impl Answered {
    /// An answer without updates after it.
    pub(crate) fn new(result: &impl Serialize) -> Self {
        let result = serde_json::value::to_raw_value(result).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self { result, then: Vec::new(), questions: None, opens: None }
    }

    /// An answer that opens a session.
    pub(crate) fn opening(result: &impl Serialize, opening: Opening) -> Self {
        Self { opens: Some(opening), ..Self::new(result) }
    }

    /// The same, followed by an update.
    pub(crate) fn then(mut self, session: &SessionId, update: SessionUpdate) -> Self {
        self.then.push((session.clone(), update));
        self
    }

    /// The same, followed by questions that an earlier connection has left open.
    pub(crate) fn then_ask_again(mut self, questions: Option<OpenQuestions>) -> Self {
        self.questions = questions;
        self
    }
}

/// How a request ended.
pub(crate) type Handled = Result<Answered, Error>;

/// Serves an editor until the input ends, the editor reads no more, or `stop` resolves. Turns that run then are
/// interrupted, and the gateway is drained.
///
/// An editor that neither reads nor writes any more is gone, even if requests of it are left.
pub async fn serve(
    gateway: Arc<Gateway>,
    principal: Principal,
    settings: AgentSettings,
    streams: Streams<impl BufRead + Send + 'static, impl Write + Send + 'static>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let Streams { input, output, is_input_closed } = streams;
    let mut input = lines::read(input)?;
    let Output { lines, mut ended } = lines::write(output)?;
    let agent = Arc::new(Agent {
        gateway: Arc::clone(&gateway),
        principal,
        settings,
        editor: Editor::new(lines),
        in_flight: Arc::default(),
        open: OpenSessions::default(),
        news: Arc::default(),
        background: Mutex::default(),
    });
    let mut tasks = Tasks::default();
    tasks.news.spawn(Arc::clone(&agent).follow_news());
    tokio::pin!(stop);
    let is_read = loop {
        tokio::select! {
            biased;
            () = &mut stop => break true,
            _ = &mut ended => break false,
            Some(_) = tasks.prompts.join_next() => {}
            Some(_) = tasks.others.join_next() => {}
            line = input.recv() => match line {
                None => break true,
                // The editor may not read, so that an answer waits.
                Some(line) => tokio::select! {
                    biased;
                    () = &mut stop => break true,
                    () = closed(is_input_closed) => break false,
                    () = receive(&agent, line, &mut tasks) => {}
                },
            },
        }
    };
    end(&agent, tasks).await;
    if is_read {
        written(&agent, ended).await;
    }
    Ok(())
}

/// Waits until the input is closed, and at least as long as the last lines may take.
async fn closed(is_input_closed: fn() -> bool) {
    loop {
        tokio::time::sleep(LAST_ANSWERS).await;
        if is_input_closed() {
            return;
        }
    }
}

/// What is carried out.
#[derive(Default)]
struct Tasks {
    /// Requests that may wait for a model.
    prompts: JoinSet<()>,
    others: JoinSet<()>,
    /// Tells news of open sessions.
    news: JoinSet<()>,
}

/// Lets requests end: those without a turn by themselves, the others because their turns are interrupted.
///
/// Turns that wait for a person stay as they are. The next connection asks again.
async fn end(agent: &Agent, mut tasks: Tasks) {
    let others = async { while tasks.others.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_ANSWERS, others).await;
    tasks.news.shutdown().await;
    agent.gateway.drain(Duration::ZERO).await;
    agent.editor.is_gone();
    let prompts = async { while tasks.prompts.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_ANSWERS, prompts).await;
    tasks.prompts.shutdown().await;
    tasks.others.shutdown().await;
    agent.open.close_all().await;
    let mut background = std::mem::take(&mut *agent.lock_background());
    background.shutdown().await;
}

/// Waits until the last lines are written, but not for ever.
async fn written(agent: &Agent, ended: oneshot::Receiver<()>) {
    let written = async {
        agent.editor.end().await;
        ended.await
    };
    let _ = tokio::time::timeout(LAST_ANSWERS, written).await;
}

/// Takes a line.
async fn receive(agent: &Arc<Agent>, line: Input, tasks: &mut Tasks) {
    let line = match line {
        Input::Line(line) => line,
        Input::TooLong => {
            let why = format!("the line is longer than {LONGEST_LINE} bytes, which is the limit");
            return agent.editor.answer(&RequestId::Null, &Err(invalid_request(&why))).await;
        }
    };
    match Message::read(&line) {
        None => {}
        Some(Err(NoMessage(error))) => agent.editor.answer(&RequestId::Null, &Err(error)).await,
        Some(Ok(Message::Answer { id, answer })) => agent.editor.answered(&id, answer),
        Some(Ok(Message::Notification { method, params })) => agent.note(&method, params.as_deref()),
        Some(Ok(Message::Request { id, method, params })) => {
            if let Err(error) = begin(agent, id.clone(), method, params, tasks) {
                agent.editor.answer(&id, &Err(error)).await;
            }
        }
    }
}

/// Begins to carry out a request.
fn begin(
    agent: &Arc<Agent>,
    id: RequestId,
    method: String,
    params: Option<Box<RawValue>>,
    tasks: &mut Tasks,
) -> Result<(), Error> {
    if agent.in_flight.count() >= MOST_IN_FLIGHT {
        return Err(overloaded(&format!("{MOST_IN_FLIGHT} requests are not answered yet, which is the limit")));
    }
    let is_prompt = method == method::PROMPT;
    // A prompt takes its place now, so that a cancel that follows finds it.
    let prompt_of = if is_prompt { Some(session_of(params.as_deref())?) } else { None };
    let place = agent.in_flight.enter(&id, prompt_of);
    let mut place = place.ok_or_else(|| invalid_request("another request with this id is not answered yet"))?;
    let agent = Arc::clone(agent);
    let task = async move {
        let handling = agent.handle(&method, params.as_deref(), &mut place);
        let handled = AssertUnwindSafe(handling).catch_unwind().await.unwrap_or_else(|_| Err(defect()));
        // They may be large, and the answer may have to wait until the editor reads.
        drop(params);
        match handled {
            Ok(answered) => agent.send(&id, answered).await,
            Err(error) => agent.editor.answer(&id, &Err(error)).await,
        }
    };
    if is_prompt {
        tasks.prompts.spawn(task)
    } else {
        tasks.others.spawn(task)
    };
    Ok(())
}

/// The session that the parameters name.
fn session_of(params: Option<&RawValue>) -> Result<SessionId, Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        session_id: SessionId,
    }
    parsed::<Named>(params).map(|named| named.session_id)
}

/// Reads the parameters of a method. The error does not say what they are.
fn parsed<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, Error> {
    let json = params.map_or("{}", RawValue::get);
    serde_json::from_str(json).map_err(|_| bad_params("the parameters do not have the form that this method takes"))
}

impl Agent {
    fn lock_background(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.background.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does work that no request waits for. It is given up at the end of the connection.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut background = self.lock_background();
        while background.try_join_next().is_some() {}
        background.spawn(work);
    }

    /// Sends an answer and all that comes after it.
    async fn send(self: &Arc<Self>, id: &RequestId, answered: Answered) {
        let Answered { result, then, questions, opens } = answered;
        self.editor.answer(id, &Ok(result)).await;
        for (session, update) in then {
            self.editor.update(&session, update).await;
        }
        if let Some(questions) = questions {
            self.ask_again(questions);
        }
        drop(opens);
    }

    /// The conversations that the editor can see.
    pub(crate) fn sessions(&self) -> Sessions<'_> {
        self.gateway.sessions(&self.principal)
    }

    /// Carries out a notification. An unknown one is ignored.
    fn note(&self, method: &str, params: Option<&RawValue>) {
        match method {
            method::CANCEL => {
                if let Ok(CancelNotification { session_id, .. }) = parsed(params) {
                    self.in_flight.stop_prompts(&session_id);
                }
            }
            method::CANCEL_REQUEST => {
                if let Ok(CancelRequestNotification { request_id, .. }) = parsed(params) {
                    self.in_flight.stop(&request_id);
                }
            }
            _ => {}
        }
    }

    async fn handle(self: &Arc<Self>, method: &str, params: Option<&RawValue>, place: &mut Place) -> Handled {
        if method == method::INITIALIZE {
            return Ok(self.initialize(parsed(params)?));
        }
        if !self.editor.is_known() {
            return Err(invalid_request("the first request has to be initialize"));
        }
        match method {
            // There is nothing to log in to: the store belongs to the user who started the agent.
            method::AUTHENTICATE => Ok(Answered::new(&AuthenticateResponse::new())),
            method::NEW => self.new_session(parsed(params)?).await,
            method::LOAD => unless_stopped(place, self.load_session(parsed(params)?)).await,
            method::RESUME => self.resume_session(parsed(params)?).await,
            method::FORK => self.fork_session(parsed(params)?).await,
            method::LIST => unless_stopped(place, self.list_sessions(parsed(params)?)).await,
            method::CLOSE => self.close_session(parsed(params)?).await,
            method::DELETE => self.delete_session(parsed(params)?).await,
            method::PROMPT => self.prompt(parsed(params)?, place).await,
            method::SET_MODE => self.set_mode(parsed(params)?).await,
            method::SET_CONFIG_OPTION => self.set_option(parsed(params)?).await,
            _ => Err(unknown_method()),
        }
    }
}

/// Carries out a request that only reads, unless the editor does not want it any more.
async fn unless_stopped(place: &mut Place, work: impl Future<Output = Handled>) -> Handled {
    tokio::select! {
        biased;
        _ = place.stop.stopped() => Err(request_cancelled()),
        handled = work => handled,
    }
}
