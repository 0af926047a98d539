// Package aws buys instances on EC2.
package aws

import (
	_ "github.com/aws/aws-sdk-go-v2/config"
	_ "github.com/aws/aws-sdk-go-v2/credentials"
	_ "github.com/aws/aws-sdk-go-v2/service/ec2"
	_ "github.com/aws/aws-sdk-go-v2/service/pricing"
	_ "github.com/aws/aws-sdk-go-v2/service/servicequotas"
	_ "github.com/aws/aws-sdk-go-v2/service/sts"
	_ "golang.org/x/time/rate"
)
