module store

go 1.22

require (
	github.com/BurntSushi/toml v0.3.1
	github.com/pingcap/kvproto v0.0.0-20240222024302-881fcbf5bc41
	google.golang.org/grpc v1.62.1
)

require (
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	golang.org/x/net v0.22.0 // indirect
	golang.org/x/sys v0.18.0 // indirect
	golang.org/x/text v0.14.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240401170217-c3f982113cda // indirect
	google.golang.org/protobuf v1.33.0 // indirect
)
