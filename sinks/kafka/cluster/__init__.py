"""What a Kafka cluster is asked, and what it answers; knows neither rows nor decisions."""
