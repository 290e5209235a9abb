// Package natsstore keeps documents in a stream of NATS JetStream, in the form of its key-value
// buckets: the command nats kv can read them.
//
//	Get     the last message of the subject, from the stream's leader: newer than any change that has ended
//	Set     a publish that names the last sequence of its subject
//	Delete  the same with a marker, which ends by itself
//	List    the subjects of a prefix, then Get of each: no consumer is made
//	Follow  messages that the leader sends of each change, and reads of what was lost
//	Bus     core NATS: at most once, in lanes that subscriptions share
//	Events  a stream that a day or its size ends, written and read without consumers
//	Blobs   parts of 128 KB and a description, in the form of object stores
//
// The package knows neither where the server runs nor what the documents say.
package natsstore
