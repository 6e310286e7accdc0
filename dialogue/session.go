package dialogue

import "context"

// UserSource opens users that answer in text: the rules of the nano world, an API model, a person. The role-play model
// itself lives in the rollout engine, token by token, and is no UserSource.
type UserSource interface {
	// Open starts one user. All its randomness comes from seed.
	Open(p Profile, seed uint64) (UserSession, error)
}

// UserSession is one user in one dialogue.
type UserSession interface {
	// Reply hears what the agent said (the visible reply only) and answers with a whole tagged message of the
	// scenario's user protocol.
	Reply(ctx context.Context, agentSays string) (tagged string, err error)
}
