package authserver

// Paths of the endpoints, below the issuer's URL.
const (
	authorizePath = "/oauth/authorize"
	signInPath    = "/oauth/signin"  // the form with name and password
	consentPath   = "/oauth/consent" // the form with the decision
	tokenPath     = "/oauth/token"
	pushPath      = "/oauth/par"
	registerPath  = "/oauth/register"
	revokePath    = "/oauth/revoke"
	keysPath      = "/oauth/jwks"
	logoutPath    = "/oauth/logout"
)

// Paths of the metadata. The path of the issuer follows both.
const (
	MetadataPath = "/.well-known/oauth-authorization-server"
	OpenIDPath   = "/.well-known/openid-configuration"
)

// PagePaths are the paths that browsers open, and EndpointPaths those that programs ask.
var (
	PagePaths     = []string{authorizePath, signInPath, consentPath, logoutPath}
	EndpointPaths = []string{tokenPath, pushPath, registerPath, revokePath, keysPath}
)
