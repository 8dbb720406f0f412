//! `session/close` and `session/delete`.

use herma_gateway::{GatewayError, Missing};
use herma_model::Alias;
use herma_store::{Children, Facts};

use crate::agent::{Agent, Answered, Handled};
use crate::error::of_gateway;
use crate::schema::{
    CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse, SessionId,
};

impl Agent {
    /// Ends the prompts of a session and frees what it holds. The conversation stays.
    pub(crate) async fn close_session(&self, request: CloseSessionRequest) -> Handled {
        let id = request.session_id;
        if self.open.get(&id).is_none() {
            self.find(&id).await?;
        }
        self.end_prompts(&id).await;
        self.open.close(&id).await;
        Ok(Answered::new(&CloseSessionResponse::new()))
    }

    /// Deletes a conversation. One that does not exist is deleted already.
    pub(crate) async fn delete_session(&self, request: DeleteSessionRequest) -> Handled {
        let id = request.session_id;
        self.end_prompts(&id).await;
        self.open.close(&id).await;
        if let Ok(alias) = Alias::parse(&id.0) {
            match self.sessions().delete(&alias, Children::Keep, Facts::Erase).await {
                Ok(_) | Err(GatewayError::NotFound(Missing::Conversation)) => {}
                Err(error) => return Err(of_gateway(&error)),
            }
        }
        Ok(Answered::new(&DeleteSessionResponse::new()))
    }

    async fn end_prompts(&self, id: &SessionId) {
        self.in_flight.stop_prompts(id);
        self.in_flight.prompts_end(id).await;
    }
}
