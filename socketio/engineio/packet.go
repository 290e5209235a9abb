package engineio

// The packet types on the wire.
const (
	packetOpen    = '0'
	packetClose   = '1'
	packetPing    = '2'
	packetPong    = '3'
	packetMessage = '4'
	packetUpgrade = '5'
	packetNoop    = '6'
)

// protocolVersion is the value of the query parameter EIO.
const protocolVersion = "4"

const probe = "probe"
